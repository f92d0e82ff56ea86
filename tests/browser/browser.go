package browser

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// Browser is a running Chromium.
type Browser struct {
	t *testing.T

	mu      sync.Mutex // guards all below
	to      *os.File
	last    int
	waiting map[int]chan reply
	tabs    map[string]*Tab
	lost    error
}

// message is what crosses the pipes, in both directions.
type message struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  any             `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// reply is the answer to a command.
type reply struct {
	result json.RawMessage
	err    error
}

// Program returns the program of the browser.
func Program() (string, error) {
	if path := os.Getenv("CHROMIUM"); path != "" {
		return path, nil
	}
	return exec.LookPath("chromium")
}

// Start starts a browser of this machine.
func Start(t *testing.T) *Browser {
	t.Helper()
	return StartBy(t, func(arguments []string, pipes []*os.File) error {
		command := exec.CommandContext(t.Context(), arguments[0], arguments[1:]...)
		command.ExtraFiles, command.Dir = pipes, t.TempDir()
		if err := command.Start(); err != nil {
			return err
		}
		t.Cleanup(func() { _ = command.Wait() }) // it is killed
		return nil
	})
}

// StartBy starts a browser by a function, which gives the process the pipes as descriptors 3 and 4,
// and ends it with the test.
func StartBy(t *testing.T, start func(arguments []string, pipes []*os.File) error) *Browser {
	t.Helper()
	program, err := Program()
	harness.Need(t, "chromium", err)
	theirIn, ourOut, err1 := os.Pipe()
	ourIn, theirOut, err2 := os.Pipe()
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	b := &Browser{t: t, to: ourOut, waiting: map[int]chan reply{}, tabs: map[string]*Tab{}}
	profile := newProfile(t)
	t.Cleanup(func() { _, _ = ourOut.Close(), ourIn.Close() })
	err = start([]string{
		program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-extensions", "--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--hide-scrollbars", "--force-color-profile=srgb", "--user-data-dir=" + profile, "--remote-debugging-pipe", "about:blank",
	}, []*os.File{theirIn, theirOut})
	_, _ = theirIn.Close(), theirOut.Close()
	if err != nil {
		t.Fatal(err)
	}
	go b.read(ourIn)
	return b
}

// newProfile returns a directory for the files of a browser, and removes it with the test. Some
// processes of a browser that was killed may write there for a little longer.
func newProfile(t *testing.T) string {
	t.Helper()
	profile, err := os.MkdirTemp("", "phos-browser-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		harness.Eventually(t, "the files of the browser are removed", func() bool { return os.RemoveAll(profile) == nil })
	})
	return profile
}

// read reads what the browser sends until it ends.
func (b *Browser) read(from *os.File) {
	reader := bufio.NewReaderSize(from, 1<<16)
	for {
		text, err := reader.ReadBytes(0)
		if err != nil {
			b.end(fmt.Errorf("the browser has ended: %w", err))
			return
		}
		var got message
		got.Params = &json.RawMessage{}
		if err := json.Unmarshal(text[:len(text)-1], &got); err != nil {
			b.end(err)
			return
		}
		b.take(&got)
	}
}

// take hands a message to what waits for it.
func (b *Browser) take(got *message) {
	b.mu.Lock()
	waiting, tab := b.waiting[got.ID], b.tabs[got.Session]
	delete(b.waiting, got.ID)
	b.mu.Unlock()
	switch {
	case waiting != nil && got.Error != nil:
		waiting <- reply{err: errors.New(got.Error.Message)}
	case waiting != nil:
		waiting <- reply{result: got.Result}
	case tab != nil:
		tab.happened(got.Method, *got.Params.(*json.RawMessage))
	}
}

// end fails all commands.
func (b *Browser) end(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lost = err
	for id, each := range b.waiting {
		delete(b.waiting, id)
		each <- reply{err: err}
	}
}

// call sends a command, and reads its answer.
func (b *Browser) call(session, method string, params, result any) error {
	answer := make(chan reply, 1)
	b.mu.Lock()
	b.last++
	text, err := json.Marshal(message{ID: b.last, Session: session, Method: method, Params: params})
	if err == nil {
		err = b.lost
	}
	if err == nil {
		b.waiting[b.last] = answer
		_, err = b.to.Write(append(text, 0))
	}
	b.mu.Unlock()
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	got := <-answer
	if got.err == nil && result != nil {
		got.err = json.Unmarshal(got.result, result)
	}
	if got.err != nil {
		return fmt.Errorf("%s: %w", method, got.err)
	}
	return nil
}
