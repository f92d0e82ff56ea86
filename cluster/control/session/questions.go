package session

import (
	"context"
	"errors"
	"sync"

	"github.com/phos-gpu/phos/cluster/api"
)

// ErrNodeSilent is returned if the node that would have to answer is not connected.
var ErrNodeSilent = errors.New("the node does not answer now")

// Questions are the questions to agents that are not answered yet. It has a lock: answers come by
// streams of their own.
type Questions struct {
	mu    sync.Mutex
	last  uint64
	open  map[uint64]*Question
	ended error
}

// Question is what one request wants to know of one node.
type Question struct {
	Number uint64
	node   string
	parts  chan *api.AnswerPart
	// carriers has the stream that answers in both directions, if the question needs one.
	carriers chan api.Agents_ExecServer
	done     chan struct{} // closed when the answer is complete
	err      error         // why it is not complete; set before done is closed
}

// NewQuestions returns no questions.
func NewQuestions() *Questions { return &Questions{open: map[uint64]*Question{}} }

// Add makes a question to a node.
func (a *Questions) Add(node string) (*Question, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended != nil {
		return nil, a.ended
	}
	a.last++
	q := &Question{
		Number: a.last, node: node, parts: make(chan *api.AnswerPart, 16), done: make(chan struct{}),
		carriers: make(chan api.Agents_ExecServer, 1),
	}
	a.open[q.Number] = q
	return q, nil
}

// Find returns the question that a node answers.
func (a *Questions) Find(number uint64, node string) *Question {
	a.mu.Lock()
	defer a.mu.Unlock()
	if q := a.open[number]; q != nil && q.node == node {
		return q
	}
	return nil
}

// Finish ends a question; err says why the answer is not complete.
func (a *Questions) Finish(q *Question, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.finish(q, err)
}

// finish ends a question, once.
func (a *Questions) finish(q *Question, err error) {
	if a.open[q.Number] == q {
		delete(a.open, q.Number)
		q.err = err
		close(q.done)
	}
}

// EndOf ends all questions to a node that is not connected, or does not renew its lease. It may
// have begun no answer to them yet.
func (a *Questions) EndOf(node string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, q := range a.open {
		if q.node == node {
			a.finish(q, ErrNodeSilent)
		}
	}
}

// End ends all questions, and refuses further ones.
func (a *Questions) End(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = err
	for _, q := range a.open {
		a.finish(q, err)
	}
}

// Give hands on a part of the answer. It reports false once the answer is no longer awaited.
func (q *Question) Give(ctx context.Context, part *api.AnswerPart) (wanted bool, err error) {
	select {
	case q.parts <- part:
		return true, nil
	case <-q.done:
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// Parts returns the channel of the parts of the answer.
func (q *Question) Parts() <-chan *api.AnswerPart { return q.parts }

// Done returns a channel that is closed when the answer is complete, or will never be. Parts may
// still wait then.
func (q *Question) Done() <-chan struct{} { return q.done }

// Err says why the answer is not complete. It may be called once Done is closed.
func (q *Question) Err() error { return q.err }
