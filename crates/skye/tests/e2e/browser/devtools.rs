//! Chromium without a window, and the Chrome DevTools Protocol over its pipe. Messages are JSON, each ended by a zero
//! byte. The browser reads them from its descriptor 3, and writes to its descriptor 4.
//!
//! The protocol is implemented here because its libraries use a port, for which another program could be waiting. They
//! also bring a runtime for asynchronous code.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::scratch;

/// Longest time for an answer. A browser that needs more hangs. Its first start reads some 300 MB, which took 14 s on a
/// busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes that a browser writes to its profile.
const PROFILE_BYTES: u64 = 64 << 20;
/// One browser at a time: several would only wait for each other, and for memory.
static ONE: Mutex<()> = Mutex::new(());

/// A running browser. When this is dropped, the browser is ended and its profile removed.
pub struct Browser {
    child: Child,
    commands: Option<ChildStdin>,
    messages: Receiver<Value>,
    events: Vec<Value>,
    last_id: u64,
    profile: TempDir,
    _only: MutexGuard<'static, ()>,
}

impl Browser {
    /// Starts it, with its own profile and home.
    pub fn start() -> Self {
        let only = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let profile = scratch(PROFILE_BYTES);
        let stderr_text =
            File::create(profile.path().join("stderr")).expect("a file for what the browser says");
        let mut command = Command::new("sh");
        // Its descriptors 3 and 4 are our pipes. Its other output is no message.
        command.args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null", "sh", "chromium"]);
        command.args([
            "--headless",
            "--remote-debugging-pipe",
            // Chromium refuses to run as root otherwise. It only sees our own pages.
            "--no-sandbox",
            // Shared memory is small in many containers.
            "--disable-dev-shm-usage",
            "--disable-gpu",
            "--disable-breakpad",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--no-first-run",
            "--no-default-browser-check",
            "--hide-scrollbars",
            "--force-color-profile=srgb",
            "--password-store=basic",
        ]);
        command.arg(format!("--user-data-dir={}", profile.path().display())).arg("about:blank");
        // Its own files, such as a socket, go with its profile.
        command.env("TMPDIR", profile.path());
        command.env("HOME", profile.path()).env("LC_ALL", "C").env_remove("DISPLAY");
        command.env_remove("XDG_CONFIG_HOME").env_remove("XDG_CACHE_HOME");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr_text);
        // The browser and all that it starts are a group, and end as one.
        let mut child = command.process_group(0).spawn().expect("sh starts");
        let (sender, messages) = channel();
        let mut answers = BufReader::new(child.stdout.take().expect("its pipe"));
        thread::spawn(move || {
            let mut message = Vec::new();
            // The end of the stream, an error, and a missing listener all end this.
            while answers.read_until(0, &mut message).is_ok_and(|bytes| bytes > 0) {
                message.pop();
                let parsed = serde_json::from_slice(&message).unwrap_or(Value::Null);
                if sender.send(parsed).is_err() {
                    break;
                }
                message.clear();
            }
        });
        let commands = child.stdin.take();
        Self { child, commands, messages, events: Vec::new(), last_id: 0, profile, _only: only }
    }

    /// Opens a new page without content.
    pub fn page(&mut self) -> Page<'_> {
        let target = self.call(None, "Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session = self.call(None, "Target.attachToTarget", attach);
        let session = session["sessionId"].as_str().expect("a session").to_owned();
        self.events.clear();
        let mut page = Page { browser: self, session };
        for domain in ["Runtime", "Log", "Network", "Page"] {
            page.call(&format!("{domain}.enable"), json!({}));
        }
        page.call("Page.setLifecycleEventsEnabled", json!({"enabled": true}));
        page
    }

    fn call(&mut self, session: Option<&str>, method: &str, parameters: Value) -> Value {
        self.last_id += 1;
        let id = self.last_id;
        let mut message = json!({"id": id, "method": method, "params": parameters});
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        let mut bytes = serde_json::to_vec(&message).expect("JSON");
        bytes.push(0);
        let commands = self.commands.as_mut().expect("open until it is dropped");
        if let Err(error) = commands.write_all(&bytes) {
            panic!("{method}: {error}\n{}", self.stderr_text());
        }
        loop {
            let answer = self.message(method);
            if answer["id"] == id {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].clone();
            }
            self.events.push(answer);
        }
    }

    /// Returns the next message of the browser.
    fn message(&self, awaited: &str) -> Value {
        self.messages.recv_timeout(PATIENCE).unwrap_or_else(|error| {
            let what = match error {
                RecvTimeoutError::Timeout => "no answer",
                RecvTimeoutError::Disconnected => "the browser is gone",
            };
            panic!("{awaited}: {what}\n{}", self.stderr_text())
        })
    }

    /// Returns its standard error.
    fn stderr_text(&self) -> String {
        std::fs::read_to_string(self.profile.path().join("stderr")).unwrap_or_default()
    }

    /// Returns the directory of its profile.
    pub fn profile(&self) -> &Path {
        self.profile.path()
    }

    /// Returns its process number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser has nothing that must be saved. Until its first process is reaped, no other process has the
        // group's number.
        let _ = rustix::process::kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
        // The others of the group may still be on their way out, with files in hand.
        for _ in 0..100 {
            let gone = std::fs::remove_dir_all(self.profile.path());
            if gone.is_ok() || !self.profile.path().exists() {
                break;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A page of a browser.
pub struct Page<'a> {
    browser: &'a mut Browser,
    session: String,
}

impl Page<'_> {
    /// Calls a method of the protocol for this page.
    ///
    /// # Panics
    /// The browser refuses, or has gone.
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.browser.call(Some(&self.session), method, parameters)
    }

    /// Opens an address and waits until all of the page is loaded.
    ///
    /// # Panics
    /// There is nothing to open.
    pub fn open(&mut self, url: &str) {
        let opened = self.call("Page.navigate", json!({"url": url}));
        assert!(opened["errorText"].is_null(), "{url}: {}", opened["errorText"]);
        // The empty page from before may still report that it is loaded.
        let is_loaded = |event: &Value| {
            event["params"]["name"] == "load" && event["params"]["loaderId"] == opened["loaderId"]
        };
        while !self.events().any(is_loaded) {
            let event = self.browser.message("loading");
            self.browser.events.push(event);
        }
    }

    /// Evaluates an expression, and returns its value as JSON. Waits for a promise. The page's own rules about scripts
    /// do not apply.
    ///
    /// # Panics
    /// The expression throws.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        self.try_evaluate(expression).unwrap_or_else(|thrown| panic!("{thrown:#}"))
    }

    /// Evaluates an expression in the same way.
    ///
    /// # Errors
    /// The expression throws; the error is the exception.
    pub fn try_evaluate(&mut self, expression: &str) -> Result<Value, Value> {
        let options = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.call("Runtime.evaluate", options);
        match &answer["exceptionDetails"] {
            Value::Null => Ok(answer["result"]["value"].clone()),
            thrown => Err(thrown.clone()),
        }
    }

    /// Returns the browser's events about this page so far, each with `method` and `params`.
    pub fn events(&self) -> impl Iterator<Item = &Value> {
        self.browser.events.iter().filter(|event| event["sessionId"] == self.session.as_str())
    }
}
