//! Tests of the tree: properties against a naive model, and a table of cases for each area.

mod acls;
mod creates;
mod model;
mod multis;
mod properties;
mod quotas;
mod reads;
mod replay;
mod scripts;
mod sweeps;
mod validation;
mod watches;
mod words;
mod world;
