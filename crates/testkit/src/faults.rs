//! Faults that a test switches on and off while the store is open.

use std::sync::{Arc, Mutex, PoisonError};

use store::fault::{FaultPoint, StoreFault, StoreFaults};

/// Makes the write path fail at a point while it is armed. Clones share the state.
#[derive(Debug, Clone, Default)]
pub struct FaultSwitch(Arc<Mutex<Option<ArmedFault>>>);

#[derive(Debug)]
struct ArmedFault {
    point: FaultPoint,
    every: u32,
    passed: u32,
}

impl FaultSwitch {
    /// Returns the faults in the form stores take.
    pub fn faults(&self) -> StoreFaults {
        let switch = self.clone();
        StoreFaults::new(move |point| switch.fault_at(point))
    }

    /// Makes every commit fail at this point.
    pub fn arm(&self, point: FaultPoint) {
        self.arm_every(1, point);
    }

    /// Makes every `every`-th commit fail at this point.
    pub fn arm_every(&self, every: u32, point: FaultPoint) {
        self.set_armed(Some(ArmedFault {
            point,
            every,
            passed: 0,
        }));
    }

    /// Stops all failures.
    pub fn disarm(&self) {
        self.set_armed(None);
    }

    fn set_armed(&self, armed: Option<ArmedFault>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = armed;
    }

    fn fault_at(&self, point: FaultPoint) -> StoreFault {
        let mut armed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match armed.as_mut() {
            Some(armed) if armed.point == point => {
                armed.passed += 1;
                if armed.passed % armed.every == 0 {
                    StoreFault::Fail
                } else {
                    StoreFault::None
                }
            }
            Some(_) | None => StoreFault::None,
        }
    }
}
