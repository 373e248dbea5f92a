//! Sends the same scripts to two ZooKeeper servers and compares everything they say.
//!
//! A script is made by [`generate`] from a seed, or is one of the fixed [`scenarios`]. [`pair`] carries
//! each of its actions out on both servers, [`side`] speaks to one of them, [`canon`] turns replies
//! and events into text in which only behaviour is left. [`run`] is what the program does.
//!
//! Invariant: two runs with the same seed against servers that behave equally send the same bytes,
//! session ids and zxids aside, and so a difference can be repeated.

pub mod action;
pub mod call;
pub mod canon;
pub mod clear;
pub mod client;
pub mod deliberate;
pub mod generate;
pub mod link;
pub mod pair;
pub mod rng;
pub mod roles;
pub mod run;
pub mod scenarios;
pub mod side;
pub mod words;
