//! Sends several statements without waiting for the answers in between: one round trip for all.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Row, Statement};

pub(super) type Value<'a> = Box<dyn ToSql + Sync + Send + 'a>;

/// The parameters of a statement, in order.
macro_rules! values {
    ($($value:expr),* $(,)?) => {
        vec![$(Box::new($value) as $crate::postgres::pipeline::Value<'_>),*]
    };
}
pub(super) use values;

/// The statements in flight on one connection, in order.
pub(super) struct StatementPipeline<'a> {
    client: &'a Client,
    answers: Vec<PipelineAnswer<'a>>,
}

enum PipelineAnswer<'a> {
    Pending(Pin<Box<dyn Future<Output = Result<Vec<Row>, Error>> + Send + 'a>>),
    Ready(Result<Vec<Row>, Error>),
}

impl<'a> StatementPipeline<'a> {
    pub fn new(client: &'a Client) -> Self {
        Self {
            client,
            answers: Vec::with_capacity(12),
        }
    }

    pub fn send_statement(&mut self, statement: &Statement, values: Vec<Value<'a>>) {
        let client = self.client;
        let statement = statement.clone();
        self.push_request(async move {
            let values: Vec<_> = values
                .iter()
                .map(|value| &**value as &(dyn ToSql + Sync))
                .collect();
            client.query(&statement, &values).await
        });
    }

    /// Sends a command without parameters that is not prepared, such as `BEGIN`.
    pub fn send_command(&mut self, sql: &'a str) {
        let client = self.client;
        self.push_request(async move { client.batch_execute(sql).await.map(|()| Vec::new()) });
    }

    /// Checks whether every statement so far was handed to the connection. A statement whose values
    /// cannot be encoded is never sent, and a COMMIT after it would commit the rest without it.
    pub fn is_fully_sent(&self) -> bool {
        self.answers
            .iter()
            .all(|answer| !matches!(answer, PipelineAnswer::Ready(Err(_))))
    }

    /// Returns every answer, in the order of sending.
    pub async fn collect_answers(mut self) -> Vec<Result<Vec<Row>, Error>> {
        poll_fn(|context| {
            let mut is_pending = false;
            for answer in &mut self.answers {
                is_pending |= !answer.poll_answer(context);
            }
            if is_pending {
                Poll::Pending
            } else {
                Poll::Ready(())
            }
        })
        .await;
        let into_result = |answer| match answer {
            PipelineAnswer::Ready(result) => result,
            PipelineAnswer::Pending(_) => unreachable!("BUG: every answer was waited for"),
        };
        self.answers.into_iter().map(into_result).collect()
    }

    fn push_request(&mut self, request: impl Future<Output = Result<Vec<Row>, Error>> + Send + 'a) {
        // The driver sends a request when its future is first polled. Polling here fixes the order
        // and shows whether the request could be sent.
        let mut answer = PipelineAnswer::Pending(Box::pin(request));
        answer.poll_answer(&mut Context::from_waker(Waker::noop()));
        self.answers.push(answer);
    }
}

impl PipelineAnswer<'_> {
    /// Polls the answer and returns whether it has arrived.
    fn poll_answer(&mut self, context: &mut Context<'_>) -> bool {
        if let Self::Pending(request) = self {
            match request.as_mut().poll(context) {
                Poll::Ready(result) => *self = Self::Ready(result),
                Poll::Pending => return false,
            }
        }
        true
    }
}
