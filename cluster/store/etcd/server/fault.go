package server

import (
	"errors"
	"fmt"
	"runtime"
	"sync"

	"go.uber.org/zap/zapcore"
	"golang.org/x/sys/unix"
)

// fault is the error with which etcd has ended. It is a hook of etcd's logger, which reports fatal
// errors by logging them, and then ends the process or panics. The hook ends the goroutine instead.
type fault struct {
	once   sync.Once
	failed chan struct{} // closed when err is set
	err    error
}

func newFault() *fault { return &fault{failed: make(chan struct{})} }

// OnWrite ends the goroutine of a fatal error.
func (f *fault) OnWrite(entry *zapcore.CheckedEntry, fields []zapcore.Field) {
	f.set(fatalError(entry.Message, fields))
	runtime.Goexit()
}

// set takes the first error.
func (f *fault) set(err error) {
	f.once.Do(func() {
		f.err = err
		close(f.failed)
	})
}

// run calls a function of etcd. It returns when the function does, or when etcd fails: the
// goroutine that ran the function may be one that fails, or may wait for one that has failed.
func (f *fault) run(call func() error) error {
	done := make(chan error, 1)
	go func() { done <- call() }()
	select {
	case err := <-done:
		return explained(err)
	case <-f.failed:
		return f.err
	}
}

// fatalError is what etcd logs last, with the error among the fields.
func fatalError(message string, fields []zapcore.Field) error {
	for _, field := range fields {
		if err, ok := field.Interface.(error); ok {
			return explained(fmt.Errorf("etcd: %s: %w", message, err))
		}
	}
	return fmt.Errorf("etcd: %s", message)
}

// explained adds a sentinel to an error whose reason an operator can remove.
func explained(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fmt.Errorf("%w: %w", ErrDiskFull, err)
	}
	return err
}
