//! Drives a real browser, Chromium, through WebDriver.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::http::HttpClient;

/// How long a test waits for the page. Generous: the machine may be busy.
const PAGE_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

const DRIVER_ATTEMPTS: usize = 5;

/// The key under which WebDriver names elements.
const ELEMENT_KEY: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A browser with its own profile. Ended when dropped.
pub struct TestBrowser {
    driver: Child,
    client: HttpClient,
    session: String,
    _profile: TempDir,
}

impl TestBrowser {
    /// Starts a browser with a window of this size.
    ///
    /// # Panics
    ///
    /// If no browser is installed. Tests of the page are never skipped.
    pub fn start(width: u32, height: u32) -> Self {
        Self::start_with(width, height, &[])
    }

    /// Starts a browser with more arguments.
    pub fn start_with(width: u32, height: u32, more_arguments: &[String]) -> Self {
        let profile = TempDir::with_prefix("planwright-browser-").unwrap();
        let (driver, address) = start_driver();
        let client = HttpClient::new(address);
        let arguments = [
            "--headless".to_owned(),
            // Chromium's own sandbox does not work for root, as in most containers.
            "--no-sandbox".to_owned(),
            "--disable-gpu".to_owned(),
            "--disable-dev-shm-usage".to_owned(),
            "--disable-background-networking".to_owned(),
            "--disable-component-update".to_owned(),
            "--disable-sync".to_owned(),
            format!("--window-size={width},{height}"),
            format!("--user-data-dir={}", profile.path().display()),
        ];
        let arguments = [&arguments[..], more_arguments].concat();
        let options = json!({ "args": arguments });
        let wanted =
            json!({ "goog:chromeOptions": options, "goog:loggingPrefs": { "browser": "ALL" } });
        let body = json!({ "capabilities": { "alwaysMatch": wanted } });
        let started = client.post("/session", &body).ok();
        Self {
            session: started["value"]["sessionId"].as_str().unwrap().to_owned(),
            driver,
            client,
            _profile: profile,
        }
    }

    pub fn open(&self, address: &str) {
        self.post("/url", &json!({ "url": address }));
    }

    pub fn reload(&self) {
        self.post("/refresh", &json!({}));
    }

    /// Presses keys, wherever the focus is. `\u{e007}` is Enter, `\u{e009}` Control.
    pub fn press(&self, keys: &str) {
        let pressed = keys.chars().flat_map(|key| {
            let action = |kind: &str| json!({ "type": kind, "value": key.to_string() });
            [action("keyDown"), action("keyUp")]
        });
        let actions: Vec<Value> = pressed.collect();
        let keyboard = json!({ "type": "key", "id": "keyboard", "actions": actions });
        self.post("/actions", &json!({ "actions": [keyboard] }));
    }

    /// Presses keys while another one, such as Control, is held.
    pub fn press_with(&self, held: char, key: char) {
        let action = |kind: &str, key: char| json!({ "type": kind, "value": key.to_string() });
        let actions = [
            action("keyDown", held),
            action("keyDown", key),
            action("keyUp", key),
            action("keyUp", held),
        ];
        let keyboard = json!({ "type": "key", "id": "keyboard", "actions": actions });
        self.post("/actions", &json!({ "actions": [keyboard] }));
    }

    /// Goes back in the history of the tab.
    pub fn go_back(&self) {
        self.post("/back", &json!({}));
    }

    /// Opens an address in a new tab and goes there. Returns the tab.
    pub fn open_tab(&self, address: &str) -> String {
        let opened = self.post("/window/new", &json!({ "type": "tab" }));
        let tab = opened["handle"].as_str().unwrap().to_owned();
        self.go_to_tab(&tab);
        self.open(address);
        tab
    }

    pub fn go_to_tab(&self, tab: &str) {
        self.post("/window", &json!({ "handle": tab }));
    }

    pub fn current_tab(&self) -> String {
        let answer = self.client.get(&self.path("/window")).ok();
        answer["value"].as_str().unwrap().to_owned()
    }

    /// Closes the tab that is shown. Go to another one afterwards.
    pub fn close_tab(&self) {
        self.client
            .request("DELETE", &self.path("/window"), &[], "");
    }

    /// Lays the page out for a screen of this size, however small.
    pub fn set_screen(&self, width: u32, height: u32) {
        let screen =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.run_devtools_command("Emulation.setDeviceMetricsOverride", &screen);
    }

    /// Sets what the person prefers, such as `prefers-reduced-motion`.
    pub fn set_preference(&self, name: &str, value: &str) {
        let features = json!({ "features": [{ "name": name, "value": value }] });
        self.run_devtools_command("Emulation.setEmulatedMedia", &features);
    }

    fn run_devtools_command(&self, command: &str, parameters: &Value) {
        let body = json!({ "cmd": command, "params": parameters });
        self.post("/goog/cdp/execute", &body);
    }

    /// Runs a script that calls its last argument with the result.
    pub fn run_async_script(&self, script: &str) -> Value {
        let timeouts = json!({ "script": PAGE_TIMEOUT.as_millis() });
        self.post("/timeouts", &timeouts);
        self.post("/execute/async", &json!({ "script": script, "args": [] }))
    }

    /// Runs a script and returns its result.
    pub fn run_script(&self, script: &str) -> Value {
        let body = json!({ "script": script, "args": [] });
        self.post("/execute/sync", &body)
    }

    /// Waits until the text of an element contains `text`.
    #[track_caller]
    pub fn wait_for_text(&self, selector: &str, text: &str) {
        let read = format!(
            "return document.querySelector({})?.innerText ?? ''",
            json!(selector)
        );
        let mut last = Value::Null;
        let found = wait_until(|| {
            last = self.run_script(&read);
            let shown = last.as_str().unwrap_or_default().to_lowercase();
            shown.contains(&text.to_lowercase())
        });
        assert!(
            found,
            "{selector} never said `{text}`; it says {last}; the page: {}",
            self.describe()
        );
    }

    /// Waits until a script returns true.
    #[track_caller]
    pub fn wait_for(&self, what: &str, script: &str) {
        let found = wait_until(|| self.run_script(script) == json!(true));
        assert!(
            found,
            "{what} never happened; the page: {}",
            self.describe()
        );
    }

    /// Clicks an element, once it is there and enabled.
    #[track_caller]
    pub fn click(&self, selector: &str) {
        let element = self.find(selector);
        // WebDriver does not scroll to what is only covered, as by a bar at the bottom.
        let selector_json = json!(selector);
        self.run_script(&format!(
            "document.querySelector({selector_json})?.scrollIntoView({{ block: 'center', behavior: 'instant' }})"
        ));
        let mut answer = String::new();
        let clicked = wait_until(|| {
            let path = self.path(&format!("/element/{element}/click"));
            let response = self.client.post(&path, &json!({}));
            answer = response.body;
            response.status == 200
        });
        assert!(
            clicked,
            "{selector} cannot be clicked: {}; the page: {}",
            answer.get(..400).unwrap_or(&answer),
            self.describe()
        );
    }

    /// Types into an element.
    #[track_caller]
    pub fn type_into(&self, selector: &str, text: &str) {
        let element = self.find(selector);
        self.post(
            &format!("/element/{element}/value"),
            &json!({ "text": text }),
        );
    }

    /// What scripts and the security policy complained about.
    pub fn read_errors(&self) -> Vec<String> {
        let entries = self.post("/se/log", &json!({ "type": "browser" }));
        let entries = entries.as_array().cloned().unwrap_or_default();
        let severe = entries.iter().filter(|entry| entry["level"] == "SEVERE");
        severe.map(|entry| entry["message"].to_string()).collect()
    }

    #[track_caller]
    fn find(&self, selector: &str) -> String {
        let script = format!(
            "const found = document.querySelector({}); return found && !found.disabled && found.offsetParent !== null ? found : null",
            json!(selector)
        );
        let mut element = None;
        wait_until(|| {
            let found = self.run_script(&script);
            element = found[ELEMENT_KEY].as_str().map(str::to_owned);
            element.is_some()
        });
        element.unwrap_or_else(|| panic!("no {selector}; the page: {}", self.describe()))
    }

    fn describe(&self) -> String {
        let text = self.run_script("return location.href + '\\n' + document.body.innerText");
        format!(
            "{}\n{:?}",
            text.as_str().unwrap_or_default(),
            self.read_errors()
        )
    }

    #[track_caller]
    fn post(&self, path: &str, body: &Value) -> Value {
        let answer = self.client.post(&self.path(path), body);
        answer.ok()["value"].take()
    }

    fn path(&self, path: &str) -> String {
        format!("/session/{}{path}", self.session)
    }
}

impl Drop for TestBrowser {
    fn drop(&mut self) {
        // A killed driver leaves its browser running.
        self.client.request("DELETE", &self.path(""), &[], "");
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// Starts the driver. It chooses a free port for one kind of addresses and gives up if the port is taken for the other.
#[expect(clippy::disallowed_methods, reason = "tests start the browser")]
fn start_driver() -> (Child, SocketAddr) {
    for _ in 0..DRIVER_ATTEMPTS {
        let mut command = Command::new("chromedriver");
        command
            .args(["--port=0"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut driver = command.spawn().unwrap_or_else(|error| {
            panic!(
                "chromedriver cannot be started ({error}). Install chromium and chromium-driver, or run the \
                 tests with `cargo xtask test`, which installs them"
            )
        });
        if let Some(address) = read_address(&mut driver) {
            return (driver, address);
        }
        let _ = driver.wait();
    }
    panic!("chromedriver ended {DRIVER_ATTEMPTS} times without saying its port");
}

/// Reads on which port the driver listens; `None` if it ended. Keeps reading, so that the driver never waits for its
/// reader.
fn read_address(driver: &mut Child) -> Option<SocketAddr> {
    let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
    let port: u16 = loop {
        let line = lines.next()?.unwrap();
        if let Some((_, port)) = line.split_once("started successfully on port ") {
            break port.trim_end_matches('.').parse().unwrap();
        }
    };
    std::thread::spawn(move || lines.for_each(drop));
    Some(SocketAddr::from(([127, 0, 0, 1], port)))
}

fn wait_until(mut is_there: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + PAGE_TIMEOUT;
    loop {
        if is_there() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}
