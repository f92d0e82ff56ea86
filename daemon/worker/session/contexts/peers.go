package contexts

import (
	"fmt"
	"maps"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/session/core"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

func (s *Contexts) ctxEnablePeerAccess(call *core.Call, in *wire.CtxEnablePeerAccess) error {
	const op = "enable peer access"
	c, err := s.Current(call)
	if err != nil {
		return err
	}
	peer, err := s.Context(call, in.PeerContext)
	switch {
	case err != nil:
		return err
	case in.Flags != 0:
		return core.Invalid(op, "flags must be 0")
	case peer.Device == c.Device:
		return &gpu.Error{Op: op, Code: abi.InvalidDevice, Detail: "both contexts are on the same GPU"}
	case !c.Device.CanReach(peer.Device.Ordinal):
		return &gpu.Error{Op: op, Code: abi.PeerAccessUnsupported}
	}
	if _, enabled := c.Peers[peer]; enabled {
		return &gpu.Error{Op: op, Code: abi.PeerAccessAlreadyEnabled}
	}
	return s.enablePeer(c, peer)
}

// enablePeer tells the backend where the context is the first of its GPU.
func (s *Contexts) enablePeer(c, peer *core.Context) error {
	if !s.peered(c.Device, peer.Device) {
		if err := allowPeer(c.Device, peer.Device, true); err != nil {
			return err
		}
	}
	if c.Peers == nil {
		c.Peers = map[*core.Context]struct{}{}
	}
	c.Peers[peer] = struct{}{}
	return nil
}

// disablePeer is the reverse, for the last one.
func (s *Contexts) disablePeer(c, peer *core.Context) {
	delete(c.Peers, peer)
	if c.Device.GPU == nil || s.peered(c.Device, peer.Device) {
		return
	}
	if err := allowPeer(c.Device, peer.Device, false); err != nil {
		s.Log.Warn("disable peer access", "gpu", c.Device.Ordinal, "peer", peer.Device.Ordinal, "error", err)
	}
}

// peered reports whether a context of one device has enabled one of the other.
func (s *Contexts) peered(d, other *core.Device) bool {
	for _, c := range s.Contexts {
		for peer := range c.Peers {
			if c.Device == d && peer.Device == other {
				return true
			}
		}
	}
	return false
}

// allowPeer sets whether d may access memory of other. Backends without peer access ignore it.
func allowPeer(d, other *core.Device, allow bool) error {
	if c, ok := d.GPU.(gpu.Peering); ok {
		return c.AllowPeer(other.Machine, allow)
	}
	return nil
}

func (s *Contexts) ctxDisablePeerAccess(call *core.Call, in *wire.CtxDisablePeerAccess) error {
	c, err := s.Current(call)
	if err != nil {
		return err
	}
	peer, err := s.Context(call, in.PeerContext)
	if err != nil {
		return err
	}
	if _, enabled := c.Peers[peer]; !enabled {
		return &gpu.Error{Op: "disable peer access", Code: abi.PeerAccessNotEnabled}
	}
	return s.reclaim.AfterWork(call, func() error { // kernels that were submitted before may still
		if _, enabled := c.Peers[peer]; enabled {
			s.disablePeer(c, peer)
		}
		return nil
	})
}

// disablePeers ends all access by and to a context that ends.
func (s *Contexts) disablePeers(c *core.Context) {
	for peer := range maps.Clone(c.Peers) {
		s.disablePeer(c, peer)
	}
	for _, other := range s.Contexts {
		if _, enabled := other.Peers[c]; enabled {
			s.disablePeer(other, c)
		}
	}
}

// restorePeers is for when all contexts are there.
func (s *Contexts) restorePeers(c *core.Context, in []abi.Handle) error {
	for _, h := range in {
		peer := s.Contexts[h.Index()]
		if peer == nil || peer.Object.Handle() != h || peer.Device == c.Device {
			return core.Damaged("%v is no peer", h)
		}
		if err := s.enablePeer(c, peer); err != nil {
			return fmt.Errorf("peer %v: %w", h, err)
		}
	}
	return nil
}
