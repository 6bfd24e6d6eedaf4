//! Faults that a test switches on and off while the store is open.

use std::sync::{Arc, Mutex, PoisonError};

use store::fault::{Fault, FaultPoint, Faults};

/// Makes the write path fail at a point while it is armed. Clones are the same switch.
#[derive(Debug, Clone, Default)]
pub struct FaultSwitch(Arc<Mutex<Option<Armed>>>);

#[derive(Debug)]
struct Armed {
    point: FaultPoint,
    every: u32,
    passed: u32,
}

impl FaultSwitch {
    /// The faults as a store takes them.
    pub fn faults(&self) -> Faults {
        let switch = self.clone();
        Faults::new(move |point| switch.at(point))
    }

    /// From now on every commit fails at this point.
    pub fn arm(&self, point: FaultPoint) {
        self.arm_every(1, point);
    }

    /// From now on every so manieth commit fails at this point.
    pub fn arm_every(&self, every: u32, point: FaultPoint) {
        self.set(Some(Armed {
            point,
            every,
            passed: 0,
        }));
    }

    /// From now on nothing fails.
    pub fn disarm(&self) {
        self.set(None);
    }

    fn set(&self, armed: Option<Armed>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = armed;
    }

    fn at(&self, point: FaultPoint) -> Fault {
        let mut armed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match armed.as_mut() {
            Some(armed) if armed.point == point => {
                armed.passed += 1;
                if armed.passed % armed.every == 0 {
                    Fault::Fail
                } else {
                    Fault::None
                }
            }
            Some(_) | None => Fault::None,
        }
    }
}
