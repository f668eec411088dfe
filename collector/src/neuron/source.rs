//! Where the monitor's lines come from: a program, a named pipe, or a file that grows.

use std::io::SeekFrom;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use service::error::{Error, Result};
use tokio::fs::File;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncSeekExt, BufReader};
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};

use super::NeuronMonitor;

/// Longest line, several times the document of a full host. A longer one is skipped.
const LINE_MAX: usize = 1 << 20;
/// How often a file is looked at for more.
const GROWN_EVERY: Duration = Duration::from_millis(500);

/// An open source of lines.
pub(super) struct Source {
    reader: BufReader<Box<dyn AsyncRead + Send + Unpin>>,
    /// A file may grow; the end of all others is their end.
    grows: bool,
    /// What was read of the line at hand.
    line: Vec<u8>,
    /// Whether the line at hand is too long already.
    skips: bool,
    /// Ends with the source.
    _child: Option<Child>,
}

impl Source {
    /// Starts the program, or opens the pipe or file. A file is read from its end: what it holds has no time.
    pub(super) async fn open(settings: &NeuronMonitor) -> Result<Self> {
        let Some(path) = &settings.input else { return Self::start(&settings.command) };
        let failed = |error: std::io::Error| Error::unavailable(format!("open {}", path.display())).with_source(error);
        if is_pipe(path) {
            // Held open for writing too, so that it does not end when its writer does.
            let pipe = pipe::OpenOptions::new().read_write(true).open_receiver(path).map_err(failed)?;
            return Ok(Self::new(Box::new(pipe), false, None));
        }
        let mut file = File::open(path).await.map_err(failed)?;
        file.seek(SeekFrom::End(0)).await.map_err(failed)?;
        Ok(Self::new(Box::new(file), true, None))
    }

    fn start(command: &[String]) -> Result<Self> {
        let (program, arguments) = command.split_first().ok_or_else(|| Error::invalid("no command"))?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| Error::unavailable(format!("start {program}")).with_source(error))?;
        let output = child.stdout.take().ok_or_else(|| Error::internal("the program has no output"))?;
        Ok(Self::new(Box::new(output), false, Some(child)))
    }

    fn new(reader: Box<dyn AsyncRead + Send + Unpin>, grows: bool, child: Option<Child>) -> Self {
        Self { reader: BufReader::new(reader), grows, line: Vec::new(), skips: false, _child: child }
    }

    /// The next line without its end; `None` at the end of the source.
    ///
    /// # Cancel safety
    /// Cancel safe: what was read of a line is kept.
    pub(super) async fn next(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        loop {
            let read = self.reader.fill_buf().await?;
            if read.is_empty() {
                if !self.grows {
                    return Ok(None);
                }
                tokio::time::sleep(GROWN_EVERY).await;
                continue;
            }
            let end = read.iter().position(|byte| *byte == b'\n');
            let part = end.map_or(read, |end| read.get(..end).unwrap_or_default());
            if self.line.len() + part.len() > LINE_MAX {
                self.skips = true;
                self.line.clear();
            } else if !self.skips {
                self.line.extend_from_slice(part);
            }
            let taken = part.len() + usize::from(end.is_some());
            self.reader.consume(taken);
            if end.is_some() {
                let line = std::mem::take(&mut self.line);
                if !std::mem::take(&mut self.skips) {
                    return Ok(Some(line));
                }
            }
        }
    }
}

fn is_pipe(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo())
}
