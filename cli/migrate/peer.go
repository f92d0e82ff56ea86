package migrate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/phos-gpu/phos/cli/humanize"
	"github.com/phos-gpu/phos/cli/migrate/wire"
)

// place is another machine, and how to reach a pos_cli there.
type place struct {
	// name is what the user has called it.
	name string
	// command starts the pos_cli there.
	command []string
}

// keepAlive lets ssh notice within half a minute that the other machine has gone.
var keepAlive = []string{"-T", "-o", "ServerAliveInterval=10", "-o", "ServerAliveCountMax=3"}

// defaultShell is the command that reaches other machines.
const defaultShell = "ssh"

// placeOf returns the machine that a user means: HOST, USER@HOST or ssh://USER@HOST:PORT.
func placeOf(to, shell, program, dir string) (place, error) {
	uri := to
	if !strings.Contains(to, "://") {
		uri = "ssh://" + to
	}
	parsed, err := url.Parse(uri)
	switch {
	case err != nil || parsed.Scheme != "ssh" || parsed.Hostname() == "" || strings.Trim(parsed.Path, "/") != "":
		return place{}, fmt.Errorf("%q names no machine: write HOST, USER@HOST or ssh://USER@HOST:PORT", to)
	case strings.HasPrefix(parsed.Hostname(), "-") || strings.HasPrefix(parsed.User.Username(), "-"):
		return place{}, fmt.Errorf("%q would be an option of ssh", to)
	}
	command := strings.Fields(shell)
	if len(command) == 0 {
		return place{}, errors.New("--ssh names no command")
	}
	if filepath.Base(command[0]) == defaultShell {
		command = append(command, keepAlive...)
	}
	if port := parsed.Port(); port != "" {
		command = append(command, "-p", port)
	}
	address := parsed.Hostname()
	if user := parsed.User.Username(); user != "" {
		address = user + "@" + address
	}
	command = append(command, address, program, "--take-over")
	if dir != "" {
		command = append(command, "--dir", dir)
	}
	return place{to, command}, nil
}

// peer is the pos_cli on the other machine.
type peer struct {
	*wire.Conn
	place    place
	process  *exec.Cmd
	input    io.Closer
	output   io.Closer
	messages chan wire.Message
	onStep   func(wire.Message)
	onNotice func(string)

	mu   sync.Mutex // guards said
	said bytes.Buffer
}

// maxSaid is how much of the other machine's error output is kept.
const maxSaid = 4 << 10

// Write keeps what ssh and the pos_cli there say on standard error.
func (p *peer) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said.Write(text[:min(len(text), maxSaid-min(maxSaid, p.said.Len()))])
	return len(text), nil
}

// deaf runs a command that Ctrl-C does not end: pos_cli decides what it ends.
const deaf = `trap "" INT; exec "$@"`

// connect starts the pos_cli on the other machine. Without its own output, nothing is shown.
func (m *migration) connect(ctx context.Context, to place) (*peer, error) {
	if _, err := exec.LookPath(to.command[0]); err != nil {
		return nil, fmt.Errorf("reach %s: %w", to.name, err)
	}
	p := &peer{place: to, messages: make(chan wire.Message), onStep: m.stepThere, onNotice: m.notice}
	p.process = exec.CommandContext(ctx, "/bin/sh", append([]string{"-c", deaf, "sh"}, to.command...)...)
	p.process.Stderr, p.process.WaitDelay = p, time.Second
	input, err := p.process.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := p.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.process.Start(); err != nil {
		return nil, fmt.Errorf("reach %s: %w", to.name, err)
	}
	p.Conn, p.input, p.output = wire.New(output, input), input, output
	go p.listen()
	return p, nil
}

// listen receives messages until the other side ends.
func (p *peer) listen() {
	defer close(p.messages)
	for {
		next, err := p.Receive()
		if errors.Is(err, wire.ErrForeign) {
			_, _ = fmt.Fprintln(p, err) // which explain shows
		}
		if err != nil {
			return
		}
		p.messages <- next
	}
}

// endTime is how long the other side may take to end by itself.
const endTime = 2 * time.Second

// close ends the connection: what the other side has not decided, it undoes.
func (p *peer) close() {
	_ = p.input.Close() // it may have ended by itself
	// A child of the command may keep its output open.
	impatient := time.AfterFunc(endTime, p.cut)
	defer impatient.Stop()
	for range p.messages {
		continue
	}
	_ = p.process.Wait() // its status says nothing that the messages did not
}

// cut ends the connection at once: all that reads or writes it returns.
func (p *peer) cut() {
	_ = p.process.Process.Kill() // or it has ended
	_ = p.output.Close()
	_ = p.input.Close()
}

// kill ends the connection at once, and what belongs to it.
func (p *peer) kill() {
	p.cut()
	p.close()
}

// await returns the next message that is one of some kinds. It shows progress and notices.
func (p *peer) await(ctx context.Context, kinds ...wire.Kind) (wire.Message, error) {
	silence, idle := time.NewTimer(wire.Silence), time.NewTimer(wire.Idle)
	defer silence.Stop()
	defer idle.Stop()
	for {
		select {
		case next, open := <-p.messages:
			silence.Reset(wire.Silence)
			if next.Kind != wire.Alive {
				idle.Reset(wire.Idle)
			}
			switch {
			case !open:
				return wire.Message{}, p.explain()
			case slices.Contains(kinds, next.Kind):
				return next, nil
			case next.Kind == wire.Failed:
				return next, fmt.Errorf("%s: %s", p.place.name, humanize.Printable(next.Text))
			case next.Kind == wire.Notice:
				p.onNotice(p.place.name + ": " + next.Text)
			case next.Kind == wire.Step:
				p.onStep(next)
			case next.Kind != wire.Alive:
				return next, fmt.Errorf("%s: %w: %s", p.place.name, wire.ErrForeign, humanize.Printable(string(next.Kind)))
			}
		case <-silence.C:
			return wire.Message{}, fmt.Errorf("%s: nothing was heard for %s", p.place.name, wire.Silence)
		case <-idle.C:
			return wire.Message{}, fmt.Errorf("%s: nothing has happened for %s", p.place.name, wire.Idle)
		case <-ctx.Done():
			return wire.Message{}, context.Cause(ctx)
		}
	}
}

// errLost is returned when the connection has ended.
var errLost = errors.New("the connection has ended")

// explain says why the other side has ended.
func (p *peer) explain() error {
	p.close() // its status says less than what it has said
	p.mu.Lock()
	defer p.mu.Unlock()
	said := strings.TrimSpace(p.said.String())
	switch {
	case strings.Contains(said, "not found") || strings.Contains(said, "No such file"):
		return fmt.Errorf("%s: %w: %s: --remote-pos-cli names the pos_cli there", p.place.name, errLost, humanize.Printable(said))
	case said == "":
		return fmt.Errorf("%s: %w", p.place.name, errLost)
	}
	return fmt.Errorf("%s: %w: %s", p.place.name, errLost, humanize.Printable(said))
}
