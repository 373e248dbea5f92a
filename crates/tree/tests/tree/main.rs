//! What the tree promises: properties against a naive model, and tables of cases an area each.

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
