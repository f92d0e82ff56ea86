package serve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/control/session"
	"github.com/phos-gpu/phos/tests/harness"
)

// TestAttach: an agent is welcomed with what it needs to come back, and gets its next certificate.
func TestAttach(t *testing.T) {
	w := newWorld(t)
	w.node("n1")
	stream, welcome := w.attach("n1")
	if string(welcome.GetBundle()) != "the CAs" || !slices.Equal(welcome.GetControllers(), []string{"here:1"}) || welcome.GetEpoch() == 0 {
		t.Errorf("the welcome is %v", welcome)
	}
	if orders, err := stream.Recv(); err != nil || !orders.GetOrders().GetComplete() {
		t.Errorf("orders %v, %v", orders, err)
	}
	if err := stream.Send(&api.FromAgent{Message: &api.FromAgent_Csr{Csr: []byte("request")}}); err != nil {
		t.Fatal(err)
	}
	if issued, err := stream.Recv(); err != nil || string(issued.GetIssued().GetCertificate()) != "for n1" {
		t.Errorf("the certificate is %v, %v", issued, err)
	}
	_, _ = w.attach("n1")
	for {
		if _, err := stream.Recv(); err != nil {
			break // the node has attached again
		}
	}
}

// TestControllersTold: an agent that is attached hears of other controllers with the next message,
// and of each change once.
func TestControllersTold(t *testing.T) {
	w := newWorld(t)
	w.node("n1")
	stream, _ := w.attach("n1")
	received := func() *api.ToAgent {
		message, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return message
	}
	if orders := received().GetOrders(); !orders.GetComplete() {
		t.Errorf("orders %v", orders)
	}
	w.know("here:1", "there:1")
	for i, want := range [][]string{{"here:1", "there:1"}, nil} {
		renewal := &api.Renewal{Number: uint64(i)}
		if err := stream.Send(&api.FromAgent{Message: &api.FromAgent_Renewal{Renewal: renewal}}); err != nil {
			t.Fatal(err)
		}
		next := received()
		if told := next.GetControllers(); told != nil {
			if !slices.Equal(told.GetAddresses(), want) {
				t.Errorf("message %d tells of %q, want %q", i, told.GetAddresses(), want)
			}
			next = received()
		} else if want != nil {
			t.Errorf("message %d is %v, want %q", i, next, want)
		}
		if next.GetRenewed().GetNumber() != uint64(i) {
			t.Errorf("renewal %d is answered by %v", i, next)
		}
	}
}

// TestRefusedAgents: only an agent of the cluster attaches, and introduces itself first.
func TestRefusedAgents(t *testing.T) {
	w := newWorld(t)
	w.node("n1")
	hello := &api.FromAgent{Message: &api.FromAgent_Hello{Hello: &api.Hello{Node: "n1"}}}
	for _, test := range []struct {
		caller string
		first  *api.FromAgent
		want   error
	}{
		{"", hello, api.ErrUnknownCaller},
		{"ada", hello, api.ErrNotPermitted},
		{"root", hello, api.ErrNotPermitted},
		{"n2", hello, api.ErrNotPermitted}, // its certificate is good, but it is no node
		{"n1", nil, api.ErrInvalid},
		{"n1", &api.FromAgent{}, api.ErrInvalid},
		{"n1", &api.FromAgent{Message: &api.FromAgent_Renewal{Renewal: &api.Renewal{}}}, api.ErrInvalid},
	} {
		stream, err := w.agents().Attach(w.as(test.caller))
		if err != nil {
			t.Fatal(err)
		}
		if test.first != nil {
			_ = stream.Send(test.first) // if it fails, the answer says why
		}
		_ = stream.CloseSend()
		if _, err := stream.Recv(); !errors.Is(api.FromStatus(err), test.want) {
			t.Errorf("%q sends %v: %v, want %v", test.caller, test.first, err, test.want)
		}
	}
}

// question asks a node, and returns the question once its agent has it.
func (w *world) question(agent api.Agents_AttachClient, node string) *session.Question {
	w.Helper()
	q, err := w.leader.AskNode(w.Context(), node, &api.Ask{Logs: &api.LogQuestion{}})
	if err != nil {
		w.Fatal(err)
	}
	for {
		message, err := agent.Recv()
		if err != nil {
			w.Fatal(err)
		}
		if message.GetAsk().GetQuestion() == q.Number {
			return q
		}
	}
}

// answer opens an answer of a node.
func (w *world) answer(ctx context.Context) api.Agents_AnswerClient {
	w.Helper()
	stream, err := w.agents().Answer(ctx)
	if err != nil {
		w.Fatal(err)
	}
	return stream
}

// awaitEnd waits until a question has ended, and returns the number of its parts.
func (w *world) awaitEnd(q *session.Question) (parts int, err error) {
	w.Helper()
	harness.Eventually(w.T, "the question has ended", func() bool {
		for {
			select {
			case <-q.Parts():
				parts++
				continue
			default:
			}
			select {
			case <-q.Done():
				return len(q.Parts()) == 0
			default:
				return false
			}
		}
	})
	return parts, q.Err()
}

// TestAnswer: the parts of an answer arrive at its question, only from the node that was asked.
func TestAnswer(t *testing.T) {
	w := newWorld(t)
	w.node("n1")
	w.node("n2")
	agent, _ := w.attach("n1")
	q := w.question(agent, "n1")
	for _, test := range []struct {
		caller string
		part   *api.AnswerPart
		want   error
	}{
		{"n2", &api.AnswerPart{Question: q.Number}, api.ErrInvalid},
		{"n1", &api.AnswerPart{Question: q.Number + 1}, api.ErrInvalid},
		{"n1", nil, api.ErrInvalid},
		{"ada", &api.AnswerPart{Question: q.Number}, api.ErrNotPermitted},
	} {
		stream := w.answer(w.as(test.caller))
		if test.part != nil {
			_ = stream.Send(test.part) // if it fails, the answer says why
		}
		if _, err := stream.CloseAndRecv(); !errors.Is(api.FromStatus(err), test.want) {
			t.Errorf("%q answers %v: %v, want %v", test.caller, test.part, err, test.want)
		}
	}
	stream := w.answer(w.as("n1"))
	const count = 40 // more than wait in a question
	go func() {
		for i := range count {
			_ = stream.Send(&api.AnswerPart{Question: q.Number, Error: fmt.Sprint(i)}) // the answer says why
		}
		_ = stream.CloseSend()
	}()
	for i := range count {
		if part := <-q.Parts(); part.GetError() != fmt.Sprint(i) {
			t.Fatalf("part %d is %v", i, part)
		}
	}
	if parts, err := w.awaitEnd(q); parts != 0 || err != nil {
		t.Errorf("%d further parts, %v", parts, err)
	}
}

// TestLostAnswers: a question ends, whenever its agent is lost: before it begins to answer, while
// it does, and while a part waits for a slow reader.
func TestLostAnswers(t *testing.T) {
	w := newWorld(t)
	w.node("n1")
	agent, _ := w.attach("n1")
	cut := w.question(agent, "n1")
	ctx, lose := context.WithCancel(w.as("n1"))
	stream := w.answer(ctx)
	if err := stream.Send(&api.AnswerPart{Question: cut.Number}); err != nil {
		t.Fatal(err)
	}
	<-cut.Parts()
	lose()
	if _, err := w.awaitEnd(cut); !errors.Is(err, session.ErrNodeSilent) {
		t.Errorf("cut off: %v", err)
	}

	slow := w.question(agent, "n1")
	ctx, lose = context.WithCancel(w.as("n1"))
	stream = w.answer(ctx)
	for range cap(slow.Parts()) + 2 {
		if err := stream.Send(&api.AnswerPart{Question: slow.Number}); err != nil {
			t.Fatal(err)
		}
	}
	harness.Eventually(t, "the question is full", func() bool { return len(slow.Parts()) == cap(slow.Parts()) })
	lose()
	<-slow.Done() // although no part was taken
	if !errors.Is(slow.Err(), session.ErrNodeSilent) {
		t.Errorf("while a part waits: %v", slow.Err())
	}

	unanswered := w.question(agent, "n1")
	if err := agent.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.awaitEnd(unanswered); !errors.Is(err, session.ErrNodeSilent) {
		t.Errorf("before the answer: %v", err)
	}
	if _, err := w.leader.AskNode(t.Context(), "n1", &api.Ask{}); !errors.Is(err, session.ErrNodeSilent) {
		t.Errorf("a later question: %v", err)
	}
}
