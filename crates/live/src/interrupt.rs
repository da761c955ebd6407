//! Ctrl-C as a callback, so that a recording can end early and keep what it has.

use std::io;

use crate::window::runtime;

/// Calls `action` at every Ctrl-C from now on, on a thread of its own; the default (the process dies) is switched off.
pub fn on_interrupt(action: impl Fn() + Send + 'static) -> io::Result<()> {
    let runtime = runtime()?;
    // The handler must stand before this returns, or an early Ctrl-C would still kill the process.
    let mut interrupts = {
        let _context = runtime.enter();
        tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())?
    };
    std::thread::Builder::new().name("interrupt".into()).spawn(move || {
        runtime.block_on(async move {
            while interrupts.recv().await.is_some() {
                action();
            }
        });
    })?;
    Ok(())
}
