package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/internal/linux/boottime"
	"github.com/phos-gpu/phos/internal/ticks"
)

// stream is one stream to a leader.
type stream struct {
	link    *Link
	client  api.AgentsClient
	grpc    api.Agents_AttachClient
	issued  chan *api.Issued
	trusted chan struct{} // has a value when other CAs are trusted
	address string        // of the controller
	// attached means that the leader has answered.
	attached bool

	// mu guards what follows, and is held while a message is sent.
	mu     sync.Mutex
	asks   map[uint64]context.CancelFunc
	fence  time.Duration
	hailed time.Duration            // when the first message was sent
	sent   map[uint64]time.Duration // renewals that are not answered
	number uint64
}

// attach connects to a controller and follows it, until the connection ends. It reports whether
// that one has led the node.
func (l *Link) attach(ctx context.Context) (attached bool, err error) {
	address := l.controllers.pick()
	conn, err := l.connect(ctx, address)
	if err != nil {
		return false, fmt.Errorf("connect: %w", api.FromStatus(err))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	client := api.NewAgentsClient(conn)
	opened, err := client.Attach(ctx)
	if err != nil {
		return false, fmt.Errorf("attach to %s: %w", address, api.FromStatus(err))
	}
	s := &stream{
		link: l, address: address, client: client, grpc: opened, issued: make(chan *api.Issued, 1),
		trusted: make(chan struct{}, 1),
		asks:    map[uint64]context.CancelFunc{}, sent: map[uint64]time.Duration{},
	}
	err = s.follow(ctx)
	if s.attached {
		l.disconnect()
	}
	l.controllers.named(opened.Trailer())
	return s.attached, fmt.Errorf("attached to %s: %w", address, api.FromStatus(err))
}

// send sends a message.
func (s *stream) send(message *api.FromAgent) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.grpc.Send(message)
}

// follow introduces the node, and then does what the leader sends.
func (s *stream) follow(ctx context.Context) error {
	if err := s.hello(ctx); errors.Is(err, io.EOF) {
		_, err = s.grpc.Recv() // the controller has refused the stream: this says why, and which one leads
		return err
	} else if err != nil {
		return err
	}
	stop := s.link.host.ReportTo(func(r *api.Report) {
		_ = s.send(&api.FromAgent{Message: &api.FromAgent_Report{Report: r}}) // the next stream reports it again
	})
	defer stop()
	for {
		message, err := s.grpc.Recv()
		if err != nil {
			return err
		}
		if err := s.receive(ctx, message); err != nil {
			return err
		}
	}
}

// hello sends the first message.
func (s *stream) hello(ctx context.Context) error {
	s.hailed = boottime.Now()
	hello := s.link.host.Hello(ctx)
	return s.send(&api.FromAgent{Message: &api.FromAgent_Hello{Hello: hello}})
}

// receive handles a message of the leader.
func (s *stream) receive(ctx context.Context, message *api.ToAgent) error {
	switch m := message.GetMessage().(type) {
	case *api.ToAgent_Welcome:
		return s.welcomed(ctx, m.Welcome)
	case *api.ToAgent_Renewed:
		s.renewed(ctx, m.Renewed)
	case *api.ToAgent_Orders:
		return s.link.host.Follow(ctx, s.client, m.Orders)
	case *api.ToAgent_Issued:
		select {
		case s.issued <- m.Issued:
		default: // not asked for
		}
	case *api.ToAgent_Ask:
		s.asked(ctx, m.Ask)
	case *api.ToAgent_Controllers:
		s.learn(m.Controllers.GetAddresses())
	case *api.ToAgent_Trust:
		s.trust(m.Trust.GetBundle())
	}
	return nil
}

// welcomed begins to renew the lease.
func (s *stream) welcomed(ctx context.Context, w *api.Welcome) error {
	s.attached = true
	s.link.keepOnly(s.address)
	lease := time.Duration(w.GetLeaseMs()) * time.Millisecond
	s.fence = time.Duration(w.GetFenceAfterMs()) * time.Millisecond
	if lease < 100*time.Millisecond || s.fence < lease {
		return fmt.Errorf("a lease of %v and fence_after of %v make no sense", lease, s.fence)
	}
	contact := &s.link.contact
	s.learn(w.GetControllers())
	contact.Log.Info("attached", "epoch", w.GetEpoch(), "lease", lease, "fence_after", s.fence)
	// The leader counts from when it has got the first message. Orders follow at once, and what they
	// start needs a deadline.
	s.link.host.Renewed(ctx, s.hailed+s.fence)
	s.link.host.Attached(ctx, s.client)
	go s.renewAll(ctx, lease/3)
	go s.watchInventory(ctx)
	if err := contact.Certificate.Trust(w.GetBundle()); err != nil {
		return fmt.Errorf("CAs of the cluster: %w", err)
	}
	s.tellTrusts()
	go s.renewCertificate(ctx)
	return nil
}

// learn notes where the controllers are, also for the next start.
func (s *stream) learn(addresses []string) {
	contact := &s.link.contact
	if !s.link.controllers.learn(addresses) {
		return
	}
	if err := contact.SaveControllers(addresses); err != nil {
		contact.Log.Warn("the addresses of controllers are not kept", "error", err)
	}
}

// renewAll asks for the lease again and again. The time before a request is sent counts, not that
// of the answer.
func (s *stream) renewAll(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		s.mu.Lock()
		s.number++
		s.sent[s.number] = boottime.Now()
		for number := range s.sent {
			if number+100 < s.number {
				delete(s.sent, number)
			}
		}
		err := s.grpc.Send(&api.FromAgent{Message: &api.FromAgent_Renewal{Renewal: &api.Renewal{Number: s.number}}})
		s.mu.Unlock()
		if err != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// renewed extends the deadlines of what runs here.
func (s *stream) renewed(ctx context.Context, r *api.Renewed) {
	s.mu.Lock()
	at, known := s.sent[r.GetNumber()]
	delete(s.sent, r.GetNumber())
	s.mu.Unlock()
	if !known {
		return
	}
	s.link.host.Renewed(ctx, at+s.fence)
}

// inventoryEvery is how often the inventory is looked at.
const inventoryEvery = 3 * time.Second

// watchInventory tells the leader when the inventory changes.
func (s *stream) watchInventory(ctx context.Context) {
	last := ""
	for range ticks.Every(ctx, inventoryEvery) {
		inventory := s.link.host.Inventory(ctx)
		if text := inventory.String(); text != last {
			last = text
			_ = s.send(&api.FromAgent{Message: &api.FromAgent_Inventory{Inventory: inventory}})
		}
	}
}
