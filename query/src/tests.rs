//! The service over a real lake in a directory.

mod bounding;
mod collecting;
mod counting;
mod energy;
mod reading;
mod refusing;
mod splitting;
mod stopping;
mod world;
