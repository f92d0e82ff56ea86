package backlog

import "context"

// Pipe is a list in front of a channel. Items that are flushed together are passed on together.
type Pipe[T any] struct {
	staged []T // by the goroutine that posts
	list   *List[[]T]
	out    chan []T
}

// NewPipe returns an empty pipe.
func NewPipe[T any]() *Pipe[T] { return &Pipe[T]{list: New[[]T](), out: make(chan []T)} }

// Post adds an item. It is passed on after Flush.
func (p *Pipe[T]) Post(item T) { p.staged = append(p.staged, item) }

// Flush lets the items go on that were posted.
func (p *Pipe[T]) Flush() {
	if len(p.staged) > 0 {
		p.list.Add(p.staged)
		p.staged = nil
	}
}

// Out returns the channel on which the items come.
func (p *Pipe[T]) Out() <-chan []T { return p.out }

// Run passes items on, in order, until the context ends.
func (p *Pipe[T]) Run(ctx context.Context) {
	for {
		for _, items := range p.list.Take() {
			select {
			case p.out <- items:
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-p.list.Ready():
		case <-ctx.Done():
			return
		}
	}
}
