package session

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/tests/harness"
)

// answered returns a message with a number, by which it is known again.
func answered(number uint64) *api.ToAgent {
	return &api.ToAgent{Message: &api.ToAgent_Renewed{Renewed: &api.Renewed{Number: number}}}
}

// TestServe: messages arrive in order, also those from before the stream was served, and none
// twice.
func TestServe(t *testing.T) {
	const count = 1000
	s := New()
	s.Orders(&api.Orders{Epoch: 7})
	end := errors.New("the node has attached again")
	go func() {
		for i := range count {
			s.Send(answered(uint64(i)))
		}
	}()
	var got []*api.ToAgent
	err := s.Serve(t.Context(), func(message *api.ToAgent) error {
		if got = append(got, message); len(got) == count+1 {
			s.End(end)
			s.End(errors.New("a later reason"))
		}
		return nil
	})
	if !errors.Is(err, end) {
		t.Errorf("it ended with %v, want the first reason", err)
	}
	if len(got) != count+1 || got[0].GetOrders().GetEpoch() != 7 {
		t.Fatalf("%d messages, the first is %v", len(got), got[0])
	}
	for i, message := range got[1:] {
		if message.GetRenewed().GetNumber() != uint64(i) {
			t.Fatalf("message %d is %v", i, message)
		}
	}
}

// TestServeEnds: the stream ends with its reason, whatever that is; also if it ended before.
func TestServeEnds(t *testing.T) {
	lost := errors.New("the connection is lost")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, test := range []struct {
		name string
		do   func(s *Session) error
		want error
	}{
		{"ended without error", func(s *Session) error {
			s.End(nil)
			return s.Serve(t.Context(), func(*api.ToAgent) error { return nil })
		}, nil},
		{"the agent is gone", func(s *Session) error {
			s.Send(answered(1))
			return s.Serve(t.Context(), func(*api.ToAgent) error { return lost })
		}, lost},
		{"cancelled", func(s *Session) error {
			return s.Serve(cancelled, func(*api.ToAgent) error { return nil })
		}, context.Canceled},
	} {
		if err := test.do(New()); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", test.name, err, test.want)
		}
	}
}

// TestSendDoesNotWait: a slow agent holds up no other. The leader queues what it takes later.
func TestSendDoesNotWait(t *testing.T) {
	s := New()
	taken, open := make(chan struct{}, 1), make(chan struct{})
	ended := make(chan error, 1)
	count := 0
	go func() {
		ended <- s.Serve(t.Context(), func(*api.ToAgent) error {
			if count++; count == 1 {
				taken <- struct{}{}
				<-open
			}
			if count == 101 {
				s.End(nil)
			}
			return nil
		})
	}()
	s.Send(answered(0))
	<-taken
	for i := range 100 { // while the stream is blocked
		s.Send(answered(uint64(i)))
	}
	close(open)
	if err := <-ended; err != nil || count != 101 {
		t.Errorf("%d messages arrived, %v", count, err)
	}
}

// ask adds a question.
func ask(t *testing.T, to *Questions, node string) *Question {
	t.Helper()
	q, err := to.Add(node)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// done reports whether a question has ended.
func done(q *Question) bool {
	select {
	case <-q.Done():
		return true
	default:
		return false
	}
}

// TestFind: a question is found by its number, by the node that was asked, until it has ended. No
// node answers for another one.
func TestFind(t *testing.T) {
	all := NewQuestions()
	first, second := ask(t, all, "a"), ask(t, all, "b")
	if first.Number == second.Number {
		t.Fatal("two questions have one number")
	}
	for _, test := range []struct {
		number uint64
		node   string
		want   *Question
	}{
		{first.Number, "a", first},
		{second.Number, "b", second},
		{first.Number, "b", nil},
		{second.Number, "a", nil},
		{first.Number, "", nil},
		{0, "a", nil},
		{1 << 63, "a", nil},
	} {
		if got := all.Find(test.number, test.node); got != test.want {
			t.Errorf("question %d of %q: %v, want %v", test.number, test.node, got, test.want)
		}
	}
	all.Finish(first, nil)
	if all.Find(first.Number, "a") != nil || !done(first) || first.Err() != nil {
		t.Errorf("after its end: found %v, done %v, %v", all.Find(first.Number, "a"), done(first), first.Err())
	}
	if third := ask(t, all, "a"); third.Number == first.Number {
		t.Error("the number of an ended question is used again: a late answer would be taken for its own")
	}
	if done(second) {
		t.Error("another question has ended, too")
	}
}

// TestFinishOnce: the first end of a question counts.
func TestFinishOnce(t *testing.T) {
	all := NewQuestions()
	q := ask(t, all, "a")
	all.Finish(q, ErrNodeSilent)
	all.Finish(q, nil)
	all.End(errors.New("later"))
	if !errors.Is(q.Err(), ErrNodeSilent) {
		t.Errorf("it ended with %v", q.Err())
	}
}

// TestEndOf: a node that is no longer connected answers nothing; what others are asked stays, and
// the node can be asked again.
func TestEndOf(t *testing.T) {
	all := NewQuestions()
	first, second, other := ask(t, all, "a"), ask(t, all, "a"), ask(t, all, "b")
	all.EndOf("a")
	all.EndOf("c")
	for _, q := range []*Question{first, second} {
		if !done(q) || !errors.Is(q.Err(), ErrNodeSilent) {
			t.Errorf("question %d: done %v, %v", q.Number, done(q), q.Err())
		}
	}
	if done(other) || done(ask(t, all, "a")) {
		t.Error("a question to another node, or a later one, has ended")
	}
}

// TestEnd: with the leader all questions end, and no more can be asked.
func TestEnd(t *testing.T) {
	all := NewQuestions()
	q := ask(t, all, "a")
	why := errors.New("this controller does not lead")
	all.End(why)
	if !done(q) || !errors.Is(q.Err(), why) {
		t.Errorf("done %v, %v", done(q), q.Err())
	}
	if _, err := all.Add("a"); !errors.Is(err, why) {
		t.Errorf("a further question: %v", err)
	}
}

// TestGive: parts arrive in order. The end of a question or of the stream lets go of the agent,
// also if no part is taken any longer.
func TestGive(t *testing.T) {
	all := NewQuestions()
	q := ask(t, all, "a")
	var wait sync.WaitGroup
	var got []string
	wait.Go(func() {
		for range 100 {
			got = append(got, (<-q.Parts()).GetError())
		}
	})
	var want []string
	for i := range 100 {
		text := string(rune('a' + i%26))
		want = append(want, text)
		if wanted, err := q.Give(t.Context(), &api.AnswerPart{Error: text}); !wanted || err != nil {
			t.Fatal(wanted, err)
		}
	}
	wait.Wait()
	if !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}

	full := func() *Question {
		q := ask(t, all, "a")
		for range cap(q.parts) {
			if wanted, err := q.Give(t.Context(), &api.AnswerPart{}); !wanted || err != nil {
				t.Fatal(wanted, err)
			}
		}
		return q
	}
	ended, unread := full(), full()
	type result struct {
		wanted bool
		err    error
	}
	results := make(chan result, 1)
	wait.Go(func() {
		wanted, err := ended.Give(t.Context(), &api.AnswerPart{})
		results <- result{wanted, err}
	})
	all.Finish(ended, nil)
	if r := <-results; r.wanted || r.err != nil {
		t.Errorf("after the end: %+v", r)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if wanted, err := unread.Give(ctx, &api.AnswerPart{}); wanted || !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the stream: %v, %v", wanted, err)
	}
	wait.Wait()
}

// TestQuestionsAtOnce: requests, answers and the end of the leader come from goroutines of their
// own. Each question ends, once.
func TestQuestionsAtOnce(t *testing.T) {
	all := NewQuestions()
	why := errors.New("this controller does not lead")
	var wait sync.WaitGroup
	for range 20 {
		wait.Go(func() {
			for range 50 {
				q, err := all.Add("a")
				if err != nil {
					return
				}
				wait.Go(func() { all.EndOf("a") })
				wait.Go(func() { all.Finish(q, nil) })
				<-q.Done()
				if err := q.Err(); err != nil && !errors.Is(err, ErrNodeSilent) && !errors.Is(err, why) {
					t.Error(err)
				}
			}
		})
	}
	wait.Go(func() { all.End(why) })
	wait.Wait()
	harness.Eventually(t, "no question is left", func() bool {
		all.mu.Lock()
		defer all.mu.Unlock()
		return len(all.open) == 0
	})
}
