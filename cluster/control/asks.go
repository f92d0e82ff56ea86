package control

import (
	"context"
	"errors"
	"sync"

	"github.com/phos-gpu/phos/cluster/api"
)

// ErrNodeSilent is returned if the node that would have to answer is not connected.
var ErrNodeSilent = errors.New("the node does not answer now")

// asks are the questions to agents that are not answered yet. It has a lock: answers come by
// streams of their own.
type asks struct {
	mu    sync.Mutex
	last  uint64
	open  map[uint64]*question
	ended error
}

// question is what one request wants to know of one node.
type question struct {
	number uint64
	node   string
	parts  chan *api.AnswerPart
	done   chan struct{} // closed when the answer is complete
	err    error         // why it is not complete; set before done is closed
}

func newAsks() *asks { return &asks{open: map[uint64]*question{}} }

// add makes a question to a node.
func (a *asks) add(node string) (*question, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended != nil {
		return nil, a.ended
	}
	a.last++
	q := &question{number: a.last, node: node, parts: make(chan *api.AnswerPart, 16), done: make(chan struct{})}
	a.open[q.number] = q
	return q, nil
}

// find returns the question that a node answers.
func (a *asks) find(number uint64, node string) *question {
	a.mu.Lock()
	defer a.mu.Unlock()
	if q := a.open[number]; q != nil && q.node == node {
		return q
	}
	return nil
}

// finish ends a question; err says why the answer is not complete.
func (a *asks) finish(q *question, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open[q.number] == q {
		delete(a.open, q.number)
		q.err = err
		close(q.done)
	}
}

// end ends all questions.
func (a *asks) end(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = err
	for number, q := range a.open {
		delete(a.open, number)
		q.err = err
		close(q.done)
	}
}

// askNode sends a question to a node. Answers of a node arrive until the context ends.
func (l *Leader) askNode(ctx context.Context, node string, ask *api.Ask) (*question, error) {
	q, err := l.asks.add(node)
	if err != nil {
		return nil, err
	}
	ask.Question = q.number
	err = l.ask(ctx, func() error {
		n := l.nodes[node]
		if n == nil || n.session == nil {
			return ErrNodeSilent
		}
		n.session.send(&api.ToAgent{Message: &api.ToAgent_Ask{Ask: ask}})
		return nil
	})
	if err != nil {
		l.asks.finish(q, err)
		return nil, err
	}
	context.AfterFunc(ctx, func() {
		l.asks.finish(q, ctx.Err())
		l.turns.add(func() {
			if n := l.nodes[node]; n != nil && n.session != nil {
				cancel := &api.Ask{Question: q.number, Cancel: true}
				n.session.send(&api.ToAgent{Message: &api.ToAgent_Ask{Ask: cancel}})
			}
		})
	})
	return q, nil
}
