package contents

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"
)

// openAgain opens a shared limit as another process does, by its file.
func openAgain(t *testing.T, l *Limit, bytesPerSecond uint64) *Limit {
	t.Helper()
	other, err := OpenLimit(l.File(), bytesPerSecond)
	if err != nil {
		t.Fatal(err)
	}
	return other
}

// TestSharedLimit: several writers, which know the limit by its file alone, are together as slow as
// the limit says. The last piece of each is written before it is paid for.
func TestSharedLimit(t *testing.T) {
	const rate, piece, pieces, writers = 1 << 20, 16 << 10, 4, 4
	limit, err := NewSharedLimit(rate)
	if err != nil {
		t.Fatal(err)
	}
	defer limit.Close()
	begun := time.Now()
	var all sync.WaitGroup
	for range writers {
		own := openAgain(t, limit, rate)
		all.Go(func() {
			for range pieces {
				if err := own.Wait(context.Background(), piece); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if least := time.Second * (pieces*writers - 1) * piece / rate; time.Since(begun) < least {
		t.Errorf("took %v, want at least %v", time.Since(begun), least)
	}
}

// TestCharge: bytes that did not wait make later ones wait.
func TestCharge(t *testing.T) {
	limit := NewLimit(1 << 20)
	begun := time.Now()
	limit.Charge(64 << 10)
	limit.Charge(64 << 10)
	if err := limit.Wait(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if least := time.Second / 8; time.Since(begun) < least {
		t.Errorf("took %v, want at least %v", time.Since(begun), least)
	}
}

// TestLimitEnds: Wait ends with its context, and returns the cause.
func TestLimitEnds(t *testing.T) {
	limit := NewLimit(1)
	limit.Charge(1 << 40)
	cause := errors.New("cause")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if err := limit.Wait(ctx, 1); !errors.Is(err, cause) {
		t.Errorf("got %v, want the cause", err)
	}
}

// TestLimitFile: a process that opens the limit cannot make its file shorter, which would end the
// others, and a file that can become shorter is refused.
func TestLimitFile(t *testing.T) {
	limit, err := NewSharedLimit(1)
	if err != nil {
		t.Fatal(err)
	}
	defer limit.Close()
	if err := limit.File().Truncate(0); err == nil {
		t.Error("the file of a limit was truncated")
	}
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := OpenLimit(file, 1); err == nil {
		t.Error("another file was taken for a limit")
	}
}

// TestNoLimit: without a limit nothing waits.
func TestNoLimit(t *testing.T) {
	limit, err := NewSharedLimit(0)
	if err != nil || limit != nil || limit.File() != nil || NewLimit(0) != nil {
		t.Fatalf("got %v, %v", limit, err)
	}
	limit.Charge(1 << 40)
	if err := errors.Join(limit.Wait(t.Context(), 1<<40), limit.Close()); err != nil {
		t.Error(err)
	}
}
