//! The device timeline, on recordings made by hand.

mod accounts;
mod launching;
mod ranks;
mod recording;
mod units;
mod work;
