package backlog

import "sync"

// List is what one goroutine has for another.
type List[T any] struct {
	mu     sync.Mutex
	items  []T
	closed bool
	ready  Signal
}

// New returns an empty list.
func New[T any]() *List[T] { return &List[T]{ready: NewSignal()} }

// Add appends items. It reports false if the list is closed.
func (l *List[T]) Add(items ...T) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.items = append(l.items, items...)
	l.ready.Send()
	return true
}

// Take removes all items.
func (l *List[T]) Take() []T {
	l.mu.Lock()
	defer l.mu.Unlock()
	items := l.items
	l.items = nil
	return items
}

// Close refuses further items, and drops those that wait.
func (l *List[T]) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed, l.items = true, nil
}

// Ready returns a channel that has a value if the list may not be empty.
func (l *List[T]) Ready() <-chan struct{} { return l.ready }
