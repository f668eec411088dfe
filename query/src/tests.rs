//! The service over a real lake in a directory.

mod collecting;
mod counting;
mod energy;
mod reading;
mod refusing;
mod splitting;
mod world;
