package images

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"time"

	"github.com/phos-gpu/phos/cluster/agent/saver"
	"github.com/phos-gpu/phos/cluster/agent/supervisor"
	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/identity/channel"
	"github.com/phos-gpu/phos/internal/ticks"
)

// Want is an image that is fetched.
type Want struct {
	// From is the node that has it, Of the attempt that was saved.
	From *api.ImageSource
	Of   supervisor.Key
	// As is the owner.
	As    saver.Owner
	Order ReceiveOrder
}

// Fetcher fetches images with the certificate of its node.
type Fetcher struct {
	Source channel.Source
	// Patience is how long the other node may send nothing, however often it is asked; 0: as long as a
	// node may be silent.
	Patience time.Duration
}

// Times of fetching.
const (
	// patience is the usual one. A node that is silent for longer has been given up by then.
	patience = 2 * time.Minute
	// firstWait and longestWait are between two attempts.
	firstWait, longestWait = 100 * time.Millisecond, 2 * time.Second
	// dialTime is how long a connection may take.
	dialTime = 5 * time.Second
	// leastTries is how many attempts in a row may not get further than earlier ones.
	leastTries = 5
)

var (
	// errAgain means that the other node may answer another time.
	errAgain = errors.New("asked again")
	// errBusy means that it answers, and has others to answer before.
	errBusy = errors.New("it sends to other nodes")
)

// Fetch gets an image. progress gets the bytes that have come so far. prepare makes the working
// directories empty, before each attempt.
func (f Fetcher) Fetch(ctx context.Context, want Want, prepare func() error, progress func(bytes uint64)) error {
	if f.Patience == 0 {
		f.Patience = patience
	}
	p := &pace{tell: progress, last: time.Now()}
	for wait := firstWait; ; wait = min(2*wait, longestWait) {
		if err := prepare(); err != nil {
			return err
		}
		p.begin()
		err := f.once(ctx, want, p)
		switch {
		case err == nil:
			progress(p.bytes)
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, errBusy):
			p.last = time.Now()
		case errors.Is(err, errAgain) && p.stuck(f.Patience):
			return fmt.Errorf("image of attempt %s on node %s: %w for %v: %w",
				want.Of, want.From.GetNode(), ErrUnreachable, f.Patience, err)
		case errors.Is(err, errAgain):
		case len(want.Order.Others) > 0:
			want.Order.Others = nil // one of them may have been removed, or be damaged
		default:
			return fmt.Errorf("image of attempt %s on node %s: %w", want.Of, want.From.GetNode(), err)
		}
		_ = ticks.Pause(ctx, wait) // the end of the context is seen above
	}
}

// pace is how far a fetch has come. What an attempt has got that failed is lost, so that only what
// goes beyond all earlier ones is progress.
type pace struct {
	tell           func(bytes uint64)
	bytes, longest uint64
	tries          int       // attempts since longest grew
	last           time.Time // when something came
	told           time.Time
}

// begin begins an attempt.
func (p *pace) begin() { p.bytes, p.tries = 0, p.tries+1 }

// stuck reports whether nothing has come for too long, or the same again and again.
func (p *pace) stuck(limit time.Duration) bool {
	return time.Since(p.last) > limit || p.longest > 0 && p.tries > leastTries
}

// tellEvery is how often progress is told.
const tellEvery = time.Second

// Write implements io.Writer.
func (p *pace) Write(part []byte) (int, error) {
	p.bytes += uint64(len(part))
	p.last = time.Now()
	if p.bytes > p.longest {
		p.longest, p.tries = p.bytes, 0
	}
	if p.last.Sub(p.told) >= tellEvery {
		p.told = p.last
		p.tell(p.bytes)
	}
	return len(part), nil
}

// once asks once. The role that writes says first what is there.
func (f Fetcher) once(ctx context.Context, want Want, p *pace) error {
	text, err := json.Marshal(want.Order)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	role := want.As.Command(ctx, ReceiveRole, string(text))
	problems := &said{}
	role.Stderr = problems
	in, err := role.StdinPipe()
	if err != nil {
		return err
	}
	out, err := role.StdoutPipe()
	if err != nil {
		return err
	}
	if err := role.Start(); err != nil {
		return err
	}
	err = f.pass(ctx, want, out, io.MultiWriter(in, p))
	if err != nil {
		// What was written is not whole.
		_ = role.Process.Kill() // it may have ended, and then says why
	}
	_ = in.Close() // the role sees the end
	return explain(role, problems, err)
}

// explain returns why the role or what was passed to it has failed. A role that has ended by itself
// knows more than the one that was writing to it.
func explain(role *exec.Cmd, problems *said, passed error) error {
	err := role.Wait()
	if role.ProcessState != nil && role.ProcessState.ExitCode() > 0 {
		return errors.New(oneLine(err, problems))
	}
	if passed != nil {
		return passed // the role was killed for that
	}
	return err
}

// pass asks the other node for what the role does not have, and passes its answer on.
func (f Fetcher) pass(ctx context.Context, want Want, out io.Reader, in io.Writer) error {
	from := bufio.NewReaderSize(out, streamBytes)
	line, err := from.ReadSlice('\n')
	if err != nil {
		return err
	}
	var has offer
	if err := json.Unmarshal(line, &has); err != nil {
		return err
	}
	hashes, err := io.ReadAll(io.LimitReader(from, maxHashBytes))
	if err != nil {
		return err
	}
	client := f.client(want.From)
	defer client.CloseIdleConnections()
	request, err := ask(ctx, want, has, hashes)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return again(err)
	}
	defer answer.Body.Close()
	return passOn(answer, in)
}

// client returns what connects to one node, and to no other that poses as it.
func (f Fetcher) client(to *api.ImageSource) *http.Client {
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{Timeout: dialTime}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return idleConn{conn, f.Patience}, nil
	}
	return &http.Client{Transport: &http.Transport{
		DialContext:     dial,
		TLSClientConfig: channel.PeerClient(f.Source, time.Now, to.GetNode(), to.GetKey()), TLSHandshakeTimeout: dialTime,
		ReadBufferSize: streamBytes, DisableCompression: true,
	}}
}

// idleConn is a connection whose other end may not be idle for long.
type idleConn struct {
	net.Conn
	limit time.Duration
}

// Read implements net.Conn.
func (c idleConn) Read(to []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.limit)); err != nil {
		return 0, err
	}
	return c.Conn.Read(to)
}

// Write implements net.Conn.
func (c idleConn) Write(from []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.limit)); err != nil {
		return 0, err
	}
	return c.Conn.Write(from)
}

// ask returns a request.
func ask(ctx context.Context, want Want, has offer, hashes []byte) (*http.Request, error) {
	text, err := json.Marshal(question{
		Launch: want.Of.Launch, Replica: uint32(want.Of.Replica), Attempt: uint32(want.Of.Attempt),
		Generation: want.Order.Generation, Work: has.Complete,
	})
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost,
		"https://"+want.From.GetAddress()+path, bytes.NewReader(hashes))
	if err != nil {
		return nil, err
	}
	request.Header.Set(questionHeader, string(text))
	return request, nil
}

// again marks an error of the network, but not that another one is at the address.
func again(err error) error {
	if errors.Is(err, channel.ErrNotNode) {
		return err
	}
	return fmt.Errorf("%w: %w", err, errAgain)
}

// passOn copies an answer to the role. What does not come from the network ends it for good.
func passOn(answer *http.Response, in io.Writer) error {
	if answer.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(answer.Body, maxSaid)) // what could be read
		err := errors.New(strings.TrimSpace(string(said)))
		switch answer.StatusCode {
		case http.StatusTooManyRequests:
			return errBusy
		case http.StatusServiceUnavailable:
			return again(err)
		}
		return err
	}
	from := &network{from: answer.Body}
	_, err := io.CopyBuffer(in, from, make([]byte, streamBytes))
	switch result := answer.Trailer.Get(resultTrailer); {
	case from.err != nil:
		return again(from.err)
	case err != nil:
		return err
	case result == resultChanged:
		return again(errChanged)
	case result != resultSent:
		return fmt.Errorf("%w: %s", ErrCutShort, result)
	}
	return nil
}

// network keeps the error of reading, which is not that of writing.
type network struct {
	from io.Reader
	err  error
}

// Read implements io.Reader.
func (n *network) Read(to []byte) (int, error) {
	count, err := n.from.Read(to)
	if err != nil && !errors.Is(err, io.EOF) {
		n.err = err
	}
	return count, err
}
