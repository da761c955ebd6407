//! Ctrl-C and SIGTERM as a callback, so that a recording can end early and keep what it has.

use std::io;
use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};

use crate::window::runtime;

/// Calls `action` at every Ctrl-C and every SIGTERM from now on, each on a thread of its own; the default (the process dies)
/// is switched off. `action` is told the exit code shells expect of a process that ends for it.
pub fn on_interrupt(action: impl Fn(i32) + Send + Sync + 'static) -> io::Result<()> {
    let action = Arc::new(action);
    for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
        let action = Arc::clone(&action);
        let runtime = runtime()?;
        // The handler must stand before this returns, or an early signal would still kill the process.
        let mut signals = {
            let _context = runtime.enter();
            signal(kind)?
        };
        let exit_code = 128 + kind.as_raw_value();
        std::thread::Builder::new().name("interrupt".into()).spawn(move || {
            runtime.block_on(async move {
                while signals.recv().await.is_some() {
                    action(exit_code);
                }
            });
        })?;
    }
    Ok(())
}
