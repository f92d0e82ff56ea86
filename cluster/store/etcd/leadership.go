package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/phos-gpu/phos/cluster/store"
	"github.com/phos-gpu/phos/internal/linux/boottime"
	"github.com/phos-gpu/phos/internal/ticks"
)

// leadership renews a lease. The client's own KeepAlive does not say when it sent the request that
// was answered, which is all that counts.
type leadership struct {
	store *Store
	lease clientv3.LeaseID
	epoch store.Epoch
	alarm *boottime.Alarm // rings when the lease has ended
	lost  chan struct{}
	stop  context.CancelFunc

	mu    sync.Mutex // guards until and ended
	until time.Duration
	ended bool
}

// lead starts the renewal of a leadership that was won.
func (s *Store) lead(lease clientv3.LeaseID, epoch store.Epoch, until time.Duration) (*leadership, error) {
	alarm, err := boottime.NewAlarm()
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(s.client.Ctx())
	l := &leadership{
		store: s, lease: lease, epoch: epoch, until: until,
		alarm: alarm, lost: make(chan struct{}), stop: stop,
	}
	if err := alarm.Set(until); err != nil {
		l.end()
		return nil, err
	}
	go l.expire()
	go l.renew(ctx)
	return l, nil
}

// Epoch returns the number that writes of this leadership carry.
func (l *leadership) Epoch() store.Epoch { return l.epoch }

// Lost is closed when the leadership has ended.
func (l *leadership) Lost() <-chan struct{} { return l.lost }

// Until returns until when no other can lead.
func (l *leadership) Until() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.until
}

// Resign ends the leadership, also if etcd does not answer: nothing renews the lease any longer.
func (l *leadership) Resign(ctx context.Context) error {
	l.end()
	if err := l.store.revoke(ctx, l.lease); err != nil {
		return fmt.Errorf("resign: %w; the leadership ends by itself within %v", err, l.store.config.Lease)
	}
	return nil
}

// end closes Lost, once, and stops the goroutines.
func (l *leadership) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	l.ended = true
	l.stop()
	_ = l.alarm.Close()
	close(l.lost)
}

// expire ends the leadership when the last renewal that was answered is over.
func (l *leadership) expire() {
	defer l.end()
	for l.alarm.Wait() == nil {
		if boottime.Now() >= l.Until() {
			return
		}
	}
}

// extend takes a renewal. One that is answered after the end of the lease before it comes too late:
// the caller has been told until when it leads.
func (l *leadership) extend(until time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || boottime.Now() >= l.until || until <= l.until {
		return
	}
	if err := l.alarm.Set(until); err == nil {
		l.until = until
	}
}

// renew renews the lease until the leadership ends. A request that is not answered within a part of
// the lease is sent again: the next one may reach another member of etcd.
func (l *leadership) renew(ctx context.Context) {
	defer l.end()
	interval, retry := l.store.config.Lease/3, l.store.config.Lease/30
	for wait := interval; ticks.Pause(ctx, wait) == nil; {
		switch err := l.request(ctx); {
		case err == nil:
			wait = interval
		case gone(err):
			l.store.config.Log.Warn("leadership lost: its lease has ended", "epoch", l.epoch)
			return
		case ctx.Err() == nil:
			wait = retry
			l.store.config.Log.Warn("leadership not renewed", "epoch", l.epoch, "error", l.store.meaning(err, ""))
		}
	}
}

// request renews the lease once.
func (l *leadership) request(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.store.config.Lease/6)
	defer cancel()
	sent := boottime.Now()
	got, err := l.store.client.KeepAliveOnce(ctx, l.lease)
	if err != nil {
		return err
	}
	l.extend(l.store.lasts(sent, got.TTL))
	return nil
}

// gone reports whether a lease has ended.
func gone(err error) bool { return errors.Is(err, rpctypes.ErrLeaseNotFound) }
