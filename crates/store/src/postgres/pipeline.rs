//! Statements sent one behind the other without waiting for the answers in between: a round trip for
//! all of them instead of one for each.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Row, Statement};

/// A parameter of a statement.
pub(super) type Value<'a> = Box<dyn ToSql + Sync + Send + 'a>;

/// The parameters of a statement, in their order.
macro_rules! values {
    ($($value:expr),* $(,)?) => {
        vec![$(Box::new($value) as $crate::postgres::pipeline::Value<'_>),*]
    };
}
pub(super) use values;

/// Statements under way on one connection, in their order.
pub(super) struct Pipeline<'a> {
    client: &'a Client,
    sent: Vec<Answer<'a>>,
}

enum Answer<'a> {
    Awaited(Pin<Box<dyn Future<Output = Result<Vec<Row>, Error>> + Send + 'a>>),
    Here(Result<Vec<Row>, Error>),
}

impl<'a> Pipeline<'a> {
    /// Nothing sent yet.
    pub fn new(client: &'a Client) -> Self {
        Self {
            client,
            sent: Vec::with_capacity(12),
        }
    }

    /// Sends a prepared statement.
    pub fn send(&mut self, statement: &Statement, values: Vec<Value<'a>>) {
        let client = self.client;
        let statement = statement.clone();
        self.push(async move {
            let values: Vec<_> = values
                .iter()
                .map(|value| &**value as &(dyn ToSql + Sync))
                .collect();
            client.query(&statement, &values).await
        });
    }

    /// Sends a command that takes no parameters and is not prepared, such as `BEGIN`.
    pub fn command(&mut self, sql: &'a str) {
        let client = self.client;
        self.push(async move { client.batch_execute(sql).await.map(|()| Vec::new()) });
    }

    /// Was everything so far handed to the connection? A statement whose values cannot be encoded
    /// is never sent, and a COMMIT sent behind it would commit the rest without it.
    pub fn is_whole(&self) -> bool {
        self.sent
            .iter()
            .all(|answer| !matches!(answer, Answer::Here(Err(_))))
    }

    /// Every answer, in the order of sending.
    pub async fn answers(mut self) -> Vec<Result<Vec<Row>, Error>> {
        poll_fn(|context| {
            let mut missing = false;
            for answer in &mut self.sent {
                missing |= !answer.poll(context);
            }
            if missing {
                Poll::Pending
            } else {
                Poll::Ready(())
            }
        })
        .await;
        let here = |answer| match answer {
            Answer::Here(result) => result,
            Answer::Awaited(_) => unreachable!("BUG: every answer was waited for"),
        };
        self.sent.into_iter().map(here).collect()
    }

    fn push(&mut self, request: impl Future<Output = Result<Vec<Row>, Error>> + Send + 'a) {
        // The driver sends a request when its future is first polled. Doing that here fixes the
        // order, and shows at once whether there was anything to send.
        let mut answer = Answer::Awaited(Box::pin(request));
        answer.poll(&mut Context::from_waker(Waker::noop()));
        self.sent.push(answer);
    }
}

impl Answer<'_> {
    /// Is it here now?
    fn poll(&mut self, context: &mut Context<'_>) -> bool {
        if let Self::Awaited(request) = self {
            match request.as_mut().poll(context) {
                Poll::Ready(result) => *self = Self::Here(result),
                Poll::Pending => return false,
            }
        }
        true
    }
}
