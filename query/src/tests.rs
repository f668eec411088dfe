//! The service over a real lake in a directory.

mod attacking;
mod attribution;
mod bounding;
mod collecting;
mod cost;
mod counting;
mod documenting;
mod energy;
mod federating;
mod identity;
mod keys;
mod labels;
mod negotiated;
mod opening;
mod reading;
mod reckoning;
mod refusing;
mod restating;
mod restatements;
mod restricting;
mod rolling;
mod scanning;
mod splitting;
mod spreading;
mod stopping;
mod world;
