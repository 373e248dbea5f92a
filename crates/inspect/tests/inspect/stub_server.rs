//! An admin server that answers one request with a given response.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;

/// The received request.
#[derive(Debug)]
pub struct Request {
    pub line: String,
    pub headers: HashMap<String, String>,
    pub body: Vec<u8>,
}

/// A server for one request.
pub struct StubServer {
    pub url: String,
    thread: JoinHandle<Request>,
}

impl StubServer {
    /// Answers with these header lines and this body, and closes.
    pub fn start(status: &str, headers: &[&str], body: &[u8]) -> Self {
        let mut answer = format!("HTTP/1.1 {status}\r\nConnection: close\r\n");
        for header in headers {
            answer.push_str(&format!("{header}\r\n"));
        }
        Self::answering([answer.as_bytes(), b"\r\n", body].concat())
    }

    /// Takes the whole request, and closes without an answer.
    pub fn closing() -> Self {
        Self::answering(Vec::new())
    }

    fn answering(answer: Vec<u8>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let request = read(&stream);
            // The client may have closed the connection early.
            let _ = stream.write_all(&answer);
            request
        });
        StubServer { url, thread }
    }

    /// Returns the received request.
    pub fn request(self) -> Request {
        self.thread.join().unwrap()
    }
}

fn read(stream: &TcpStream) -> Request {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let mut headers = HashMap::new();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).unwrap();
        let Some((name, value)) = header.trim_end().split_once(": ") else {
            break;
        };
        headers.insert(name.to_lowercase(), value.to_owned());
    }
    let mut body = Vec::new();
    if headers.contains_key("expect") {
        reader.get_mut().write_all(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap();
    }
    if let Some(bytes) = headers.get("content-length") {
        body.resize(bytes.parse().unwrap(), 0);
        reader.read_exact(&mut body).unwrap();
    } else if headers.contains_key("transfer-encoding") {
        read_chunks(&mut reader, &mut body);
    }
    Request { line: line.trim_end().to_owned(), headers, body }
}

fn read_chunks(reader: &mut BufReader<&TcpStream>, body: &mut Vec<u8>) {
    loop {
        let mut size = String::new();
        reader.read_line(&mut size).unwrap();
        let bytes = usize::from_str_radix(size.trim(), 16).unwrap();
        let mut chunk = vec![0; bytes + 2];
        reader.read_exact(&mut chunk).unwrap();
        if bytes == 0 {
            return;
        }
        body.extend_from_slice(&chunk[..bytes]);
    }
}
