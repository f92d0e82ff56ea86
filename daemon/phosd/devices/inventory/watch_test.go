package inventory_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"syscall"
	"testing"

	"github.com/phos-gpu/phos/daemon/phosd/devices/inventory"
)

// roleVariable makes the test binary the child that answers queries.
const roleVariable = "PHOS_TEST_INVENTORY"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		if err := inventory.Serve(func() (inventory.Source, error) {
			return openRole(role)
		}, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func openRole(role string) (inventory.Source, error) {
	switch role {
	case "no driver":
		return nil, fmt.Errorf("%w: it is not found", inventory.ErrNoDriver)
	case "unsupported":
		return nil, inventory.ErrUnsupported
	}
	return made(role), nil
}

// made is a source whose answers hold its role and its pid.
type made string

func (m made) Inventory() (*inventory.Inventory, error) {
	switch m {
	case "dies":
		return nil, syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "hangs":
		select {}
	case "fails":
		return nil, errors.New("the GPUs cannot be counted")
	}
	return &inventory.Inventory{
		DriverVersion: string(m),
		CUDAVersion:   os.Getpid(),
		GPUs:          []inventory.GPU{{Index: 0, Name: "made"}},
	}, nil
}

func (m made) Events(ctx context.Context, tell func(inventory.Event)) error {
	for xid := range uint64(3) {
		tell(inventory.Event{Xid: 31 + xid})
	}
	<-ctx.Done()
	return nil
}

func (m made) Close() error { return nil }

func watch(t *testing.T, role string, tell func(inventory.Event)) *inventory.Watch {
	t.Helper()
	t.Setenv(roleVariable, role)
	w := inventory.NewWatch([]string{"/proc/self/exe"}, tell)
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func TestWatch(t *testing.T) {
	events := make(chan inventory.Event, 8)
	w := watch(t, "all is well", func(e inventory.Event) { events <- e })
	found, err := w.Inventory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := []inventory.GPU{{Index: 0, Name: "made"}}; found.DriverVersion != "all is well" ||
		!reflect.DeepEqual(found.GPUs, want) {
		t.Errorf("got %+v", found)
	}
	for xid := range uint64(3) {
		if e := <-events; e.Xid != 31+xid {
			t.Errorf("event %+v, want Xid %d", e, 31+xid)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(found.CUDAVersion, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("child after Close: %v", err)
	}
}

// TestWatchFails checks that the kinds of errors cross the process boundary.
func TestWatchFails(t *testing.T) {
	for _, test := range []struct {
		role string
		kind error
		text string
	}{
		{"no driver", inventory.ErrNoDriver, "no NVIDIA driver: it is not found"},
		{"unsupported", inventory.ErrUnsupported, inventory.ErrUnsupported.Error()},
		{"fails", nil, "the GPUs cannot be counted"},
		{"dies", inventory.ErrNoAnswer, "NVML does not answer: the process that queries it has exited"},
	} {
		t.Run(test.role, func(t *testing.T) {
			_, err := watch(t, test.role, nil).Inventory(t.Context())
			if err == nil || err.Error() != test.text || test.kind != nil && !errors.Is(err, test.kind) {
				t.Errorf("got %v", err)
			}
			for _, other := range []error{inventory.ErrNoDriver, inventory.ErrUnsupported, inventory.ErrNoAnswer} {
				if !errors.Is(test.kind, other) && errors.Is(err, other) {
					t.Errorf("error %v also is %v", err, other)
				}
			}
		})
	}
}

// A driver that hangs delays neither requests beyond their contexts nor Close.
func TestWatchHangs(t *testing.T) {
	w := watch(t, "hangs", nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 {
		if _, err := w.Inventory(ctx); !errors.Is(err, inventory.ErrNoAnswer) || !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	}
	asked := make(chan error)
	go func() {
		_, err := w.Inventory(context.Background())
		asked <- err
	}()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-asked; !errors.Is(err, inventory.ErrNoAnswer) {
		t.Errorf("got %v", err)
	}
}

// A request whose context has ended gets the last inventory.
func TestWatchKnowsTheLast(t *testing.T) {
	w := watch(t, "all is well", nil)
	want, err := w.Inventory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := w.Inventory(ctx); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
}
