//! Seeds that are run with every change, mistakes that must be found out, and scripts.

mod play;
mod scripts;
mod seeds;
