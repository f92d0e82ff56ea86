package browser

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// Tab is a page in a browser.
type Tab struct {
	*testing.T
	browser *Browser
	session string

	mu       sync.Mutex
	problems []string
}

// object is an argument of a command.
type object = map[string]any

// Open opens a tab of a width and height.
func (b *Browser) Open(width, height int) *Tab {
	b.t.Helper()
	var target struct {
		TargetID string `json:"targetId"`
	}
	var attached struct {
		SessionID string `json:"sessionId"`
	}
	err := b.call("", "Target.createTarget", object{"url": "about:blank"}, &target)
	if err == nil {
		err = b.call("", "Target.attachToTarget", object{"targetId": target.TargetID, "flatten": true}, &attached)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	tab := &Tab{T: b.t, browser: b, session: attached.SessionID}
	b.mu.Lock()
	b.tabs[tab.session] = tab
	b.mu.Unlock()
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		tab.do(domain+".enable", object{}, nil)
	}
	tab.Resize(width, height)
	return tab
}

// do sends a command for the tab.
func (t *Tab) do(method string, params, result any) {
	t.Helper()
	if err := t.browser.call(t.session, method, params, result); err != nil {
		t.Fatal(err)
	}
}

// happened notes errors of the page: exceptions, and what the console says of them.
func (t *Tab) happened(method string, params json.RawMessage) {
	bad := method == "Runtime.exceptionThrown"
	var said struct {
		Type  string `json:"type"`
		Entry struct {
			Level string `json:"level"`
		} `json:"entry"`
	}
	if err := json.Unmarshal(params, &said); err == nil {
		bad = bad || method == "Runtime.consoleAPICalled" && (said.Type == "error" || said.Type == "warning") ||
			method == "Log.entryAdded" && said.Entry.Level != "info" && said.Entry.Level != "verbose"
	}
	if bad {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.problems = append(t.problems, method+" "+string(params))
	}
}

// Problems returns the errors of the page since the last time.
func (t *Tab) Problems() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	found := t.problems
	t.problems = nil
	return found
}

// Resize makes the tab as wide and high as a screen.
func (t *Tab) Resize(width, height int) {
	t.Helper()
	t.do("Emulation.setDeviceMetricsOverride", object{
		"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false,
	}, nil)
}

// Prefer sets what the user prefers: "light" or "dark".
func (t *Tab) Prefer(scheme string) {
	t.Helper()
	t.do("Emulation.setEmulatedMedia", object{
		"features": []object{{"name": "prefers-color-scheme", "value": scheme}},
	}, nil)
}

// Go opens an address.
func (t *Tab) Go(url string) {
	t.Helper()
	if refused := t.Try(url); refused != "" {
		t.Fatalf("open %s: %s", url, refused)
	}
}

// Try opens an address, and returns why the browser cannot.
func (t *Tab) Try(url string) (refused string) {
	t.Helper()
	var got struct {
		ErrorText string `json:"errorText"`
	}
	t.do("Page.navigate", object{"url": url}, &got)
	return got.ErrorText
}

// try evaluates JavaScript. Promises are awaited.
func (t *Tab) try(script string, into any) error {
	var got struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		Details *struct {
			Exception struct {
				Description string `json:"description"`
			} `json:"exception"`
		} `json:"exceptionDetails"`
	}
	err := t.browser.call(t.session, "Runtime.evaluate", object{
		"expression": script, "returnByValue": true, "awaitPromise": true,
	}, &got)
	if err == nil && got.Details != nil {
		err = fmt.Errorf("%.200s: %s", script, got.Details.Exception.Description)
	}
	if err == nil && into != nil && len(got.Result.Value) > 0 {
		err = json.Unmarshal(got.Result.Value, into)
	}
	return err
}

// Eval evaluates JavaScript in the page.
func (t *Tab) Eval(script string, into any) {
	t.Helper()
	if err := t.try(script, into); err != nil {
		t.Fatal(err)
	}
}

// Text returns the text of the first element that a selector finds; empty: there is none.
func (t *Tab) Text(selector string) (text string) {
	t.Helper()
	t.Eval(fmt.Sprintf("document.querySelector(%q)?.innerText ?? ''", selector), &text)
	return text
}

// Await waits until an expression is true in the page.
func (t *Tab) Await(what, expression string) {
	t.Helper()
	failed := t.Failed()
	defer func() {
		if t.Failed() && !failed {
			t.Logf("the page shows:\n%s\nproblems: %q", t.Text("body"), t.Problems())
		}
	}()
	harness.Eventually(t.T, what, func() bool {
		var holds bool
		return t.try("Boolean("+expression+")", &holds) == nil && holds
	})
}

// keys are the codes of keys that are no characters.
var keys = map[string]int{"Tab": 9, "Enter": 13, "Escape": 27, "ArrowDown": 40, "Space": 32}

// Press presses a key.
func (t *Tab) Press(key string) {
	t.Helper()
	press := object{"type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": keys[key]}
	switch key {
	case "Enter":
		press["text"] = "\r"
	case "Space":
		press["text"], press["key"] = " ", " "
	}
	t.do("Input.dispatchKeyEvent", press, nil)
	t.do("Input.dispatchKeyEvent", object{
		"type": "keyUp", "key": press["key"], "code": key, "windowsVirtualKeyCode": keys[key],
	}, nil)
}

// Type writes a text where the focus is.
func (t *Tab) Type(text string) {
	t.Helper()
	t.do("Input.insertText", object{"text": text}, nil)
}

// Screenshot writes what the tab shows as a PNG.
func (t *Tab) Screenshot(path string) {
	t.Helper()
	var got struct {
		Data []byte `json:"data"`
	}
	t.do("Page.captureScreenshot", object{"format": "png"}, &got)
	if err := os.WriteFile(path, got.Data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// Quiet fails the test if the page has had errors, but for those that have one of these texts.
func (t *Tab) Quiet(expected ...string) {
	t.Helper()
problems:
	for _, each := range t.Problems() {
		for _, text := range expected {
			if strings.Contains(each, text) {
				continue problems
			}
		}
		t.Errorf("the page has an error: %.600s", each)
	}
}
