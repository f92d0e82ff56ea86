package agent

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/zeebo/blake3"
	"google.golang.org/grpc"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/messages"
	"github.com/phos-gpu/phos/tests/harness"
)

// leader is the controller's half of the protocol: a gRPC server that says what the test wants.
type leader struct {
	api.UnimplementedAgentsServer
	*testing.T
	address  string
	streams  chan *stage
	question atomic.Uint64

	mu      sync.Mutex // guards what follows
	code    map[string][]byte
	answers map[uint64]*answered
}

// newLeader returns a leader that listens.
func newLeader(t *testing.T) *leader {
	t.Helper()
	l := &leader{
		T: t, address: filepath.Join(t.TempDir(), "s"), streams: make(chan *stage),
		code: map[string][]byte{}, answers: map[uint64]*answered{},
	}
	listener, err := net.Listen("unix", l.address)
	if err != nil {
		t.Fatal(err)
	}
	served := grpc.NewServer()
	api.RegisterAgentsServer(served, l)
	go func() { _ = served.Serve(listener) }() // it returns when the server is stopped
	t.Cleanup(served.Stop)
	return l
}

// stage is one stream of an agent.
type stage struct {
	*leader
	grpc    api.Agents_AttachServer
	hello   *api.Hello
	hangUp  chan struct{}
	gone    chan struct{} // closed when the agent has ended the stream
	ignores atomic.Bool   // renewals are not answered

	mu       sync.Mutex // guards what follows, and is held while a message is sent
	reports  []*api.Report
	renewals int
}

// Attach implements api.AgentsServer: the stream belongs to the test until one side ends it.
func (l *leader) Attach(opened api.Agents_AttachServer) error {
	first, err := opened.Recv()
	if err != nil {
		return err
	}
	s := &stage{
		leader: l, grpc: opened, hello: first.GetHello(), hangUp: make(chan struct{}), gone: make(chan struct{}),
	}
	select {
	case l.streams <- s:
	case <-opened.Context().Done():
		return nil
	}
	go s.receive()
	select {
	case <-s.hangUp:
		return api.ErrUnavailable
	case <-s.gone:
		return nil
	}
}

// receive notes what the agent sends, and renews the lease.
func (s *stage) receive() {
	defer close(s.gone)
	for {
		message, err := s.grpc.Recv()
		if err != nil {
			return
		}
		s.mu.Lock()
		if report := message.GetReport(); report != nil {
			s.reports = append(s.reports, report)
		}
		if renewal := message.GetRenewal(); renewal != nil && !s.ignores.Load() {
			s.renewals++
			_ = s.grpc.Send(&api.ToAgent{Message: &api.ToAgent_Renewed{Renewed: &api.Renewed{Number: renewal.GetNumber()}}})
		}
		s.mu.Unlock()
	}
}

// attached waits for the next stream of an agent.
func (l *leader) attached() *stage {
	l.Helper()
	ctx, cancel := context.WithTimeout(l.Context(), harness.Patience)
	defer cancel()
	select {
	case s := <-l.streams:
		return s
	case <-ctx.Done():
		l.Fatal("no agent attaches")
		return nil
	}
}

// send sends a message to the agent.
func (s *stage) send(message *api.ToAgent) {
	s.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.grpc.Send(message); err != nil {
		s.Fatal(err)
	}
}

// welcome lets the node run attempts for a time beyond each renewal.
func (s *stage) welcome(epoch, leaseMS, fenceMS uint64) *stage {
	s.Helper()
	s.send(&api.ToAgent{Message: &api.ToAgent_Welcome{Welcome: &api.Welcome{
		Epoch: epoch, LeaseMs: leaseMS, FenceAfterMs: fenceMS, Bundle: ring.Bundle().PEM(),
	}}})
	return s
}

// order sends orders.
func (s *stage) order(orders *api.Orders) {
	s.Helper()
	s.send(&api.ToAgent{Message: &api.ToAgent_Orders{Orders: orders}})
}

// reported waits for a report that a test looks for.
func (s *stage) reported(what string, is func(*api.Report) bool) (found *api.Report) {
	s.Helper()
	harness.Eventually(s.T, "the report "+what, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, report := range s.reports {
			if is(report) {
				found = report
			}
		}
		return found != nil
	})
	return found
}

// inState waits until an attempt is in a state.
func (s *stage) inState(attempt *api.Attempt, state string) *api.Report {
	s.Helper()
	return s.reported(keyOf(attempt).String()+" "+state, func(r *api.Report) bool {
		return keyOfReport(r) == keyOf(attempt) && r.GetState() == state
	})
}

// drop ends the stream, and waits until the agent knows.
func (s *stage) drop() {
	s.Helper()
	close(s.hangUp)
	s.awaitGone()
}

// awaitGone waits until the stream has ended.
func (s *stage) awaitGone() {
	s.Helper()
	harness.Eventually(s.T, "the stream ends", func() bool { return isClosed(s.gone) })
}

// keepCode makes the leader serve a packed directory, under the name of what it claims to be.
func (l *leader) keepCode(claimed, sent []byte) *api.CodeRef {
	sum := blake3.Sum256(claimed)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.code[string(sum[:])] = sent
	return &api.CodeRef{Hash: sum[:], Bytes: uint64(len(claimed))}
}

// GetCode implements api.AgentsServer.
func (l *leader) GetCode(ref *api.CodeRef, to api.Agents_GetCodeServer) error {
	l.mu.Lock()
	packed, found := l.code[string(ref.GetHash())]
	l.mu.Unlock()
	if !found {
		return api.ErrNotFound
	}
	return messages.SendParts(bytes.NewReader(packed), to.Send)
}

// answered is what has come of a question.
type answered struct {
	lines []*api.LogLine
	usage []*api.AttemptUsage
	err   string
	ended bool
}

// Answer implements api.AgentsServer.
func (l *leader) Answer(from api.Agents_AnswerServer) error {
	var number uint64
	for {
		part, err := from.Recv()
		if err == nil {
			number = part.GetQuestion()
		}
		l.mu.Lock()
		got := l.answers[number]
		if got != nil && err == nil {
			got.lines, got.usage = append(got.lines, part.GetLines()...), append(got.usage, part.GetUsage()...)
			got.err += part.GetError()
		} else if got != nil {
			got.ended = true
		}
		l.mu.Unlock()
		if errors.Is(err, io.EOF) {
			return from.SendAndClose(&api.AnswerReply{})
		}
		if err != nil {
			return err
		}
	}
}

// ask asks a question, and returns its number.
func (s *stage) ask(ask *api.Ask) uint64 {
	s.Helper()
	ask.Question = s.question.Add(1)
	s.leader.mu.Lock()
	s.answers[ask.Question] = &answered{}
	s.leader.mu.Unlock()
	s.send(&api.ToAgent{Message: &api.ToAgent_Ask{Ask: ask}})
	return ask.Question
}

// answer returns what has come of a question so far.
func (l *leader) answer(number uint64) answered {
	l.mu.Lock()
	defer l.mu.Unlock()
	return *l.answers[number]
}

// awaitAnswer waits for the end of an answer.
func (l *leader) awaitAnswer(number uint64) answered {
	l.Helper()
	harness.Eventually(l.T, "the answer ends", func() bool { return l.answer(number).ended })
	return l.answer(number)
}
