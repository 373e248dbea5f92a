//! Seeds that are run with every change, mistakes that must be found out, and scripts.

mod matrix;
mod play;
mod scripts;
mod seeds;
