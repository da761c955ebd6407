//! Small servers on a port of this machine, each with one way to behave. They live as long as the test process.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// What a server does with every connection.
#[derive(Clone, Copy)]
pub(crate) enum Behavior {
    Page(&'static str),
    /// Answers with the request's own head.
    Echo,
    HangBeforeHead,
    HangInBody,
    SendForever,
    HugeHead,
    Garbage,
    ShortBody,
    Status(&'static str),
    Redirect(&'static str),
    EverySecondFails,
    /// Answers so many times on a connection, tells with which number, and hangs up at the next request.
    KeepsOpen(usize),
    /// Content-Encoding and body.
    Encoded(&'static str, &'static [u8]),
}

/// Starts a server and returns its port.
pub(crate) fn serve(behavior: Behavior) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for (count, stream) in listener.incoming().enumerate() {
            // The client may hang up first; that is what some of these tests are about.
            let _ = answer(stream.unwrap(), behavior, count);
        }
    });
    port
}

/// A port nobody listens on.
pub(crate) fn refused_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn answer(mut stream: TcpStream, behavior: Behavior, count: usize) -> std::io::Result<()> {
    let request = request_head(&stream)?;
    if let Behavior::KeepsOpen(answers) = behavior {
        for _ in 0..answers {
            page(&mut stream, "200 OK", &format!("connections {count}\n"))?;
            request_head(&stream)?;
        }
    }
    match behavior {
        Behavior::KeepsOpen(_) => Ok(()),
        Behavior::Page(body) => page(&mut stream, "200 OK", body),
        Behavior::Echo => page(&mut stream, "200 OK", &request),
        Behavior::HangBeforeHead => {
            hang();
            Ok(())
        }
        Behavior::HangInBody => {
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf")?;
            hang();
            Ok(())
        }
        Behavior::SendForever => {
            write!(stream, "HTTP/1.1 200 OK\r\n\r\n")?;
            loop {
                stream.write_all(&[b'x'; 4096])?;
            }
        }
        Behavior::HugeHead => {
            write!(stream, "HTTP/1.1 200 OK\r\nX-Long: ")?;
            loop {
                stream.write_all(&[b'x'; 4096])?;
            }
        }
        Behavior::Garbage => stream.write_all(b"\x00\x01SSH-2.0-whatever\r\n\r\n"),
        Behavior::ShortBody => write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf"),
        Behavior::Status(status) => page(&mut stream, status, "<html>no such page</html>"),
        Behavior::Redirect(target) => write!(stream, "HTTP/1.1 302 Found\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n"),
        Behavior::Encoded(encoding, body) => {
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Encoding: {encoding}\r\nContent-Length: {}\r\n\r\n", body.len())?;
            stream.write_all(body)
        }
        Behavior::EverySecondFails if count % 2 == 1 => page(&mut stream, "503 Service Unavailable", "busy"),
        Behavior::EverySecondFails => page(&mut stream, "200 OK", "x 1\n"),
    }
}

fn request_head(stream: &TcpStream) -> std::io::Result<String> {
    let mut head = String::new();
    let mut reader = BufReader::new(stream.take(64 * 1024));
    while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head)? > 0 {}
    Ok(head)
}

fn page(stream: &mut TcpStream, status: &str, body: &str) -> std::io::Result<()> {
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// Says nothing until the client has certainly given up.
fn hang() {
    std::thread::sleep(Duration::from_secs(20));
}
