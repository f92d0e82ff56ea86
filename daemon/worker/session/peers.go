package session

import (
	"fmt"
	"maps"
	"slices"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

func (s *Session) ctxEnablePeerAccess(call *Call, in *wire.CtxEnablePeerAccess) error {
	const op = "enable peer access"
	c, err := s.current(call)
	if err != nil {
		return err
	}
	peer, err := s.context(call, in.PeerContext)
	switch {
	case err != nil:
		return err
	case in.Flags != 0:
		return invalid(op, "flags must be 0")
	case peer.device == c.device:
		return &gpu.Error{Op: op, Code: abi.InvalidDevice, Detail: "both contexts are on the same GPU"}
	case !c.device.canReach(peer.device.ordinal):
		return &gpu.Error{Op: op, Code: abi.PeerAccessUnsupported}
	}
	if _, enabled := c.peers[peer]; enabled {
		return &gpu.Error{Op: op, Code: abi.PeerAccessAlreadyEnabled}
	}
	return s.enablePeer(c, peer)
}

// canReach reports whether the device's kernels can be allowed to touch the memory of another one.
func (d *device) canReach(ordinal int) bool {
	return ordinal >= 0 && d.info.Attributes[abi.AttrPeers]>>ordinal&1 != 0
}

// enablePeer tells the backend where the context is the first of its GPU.
func (s *Session) enablePeer(c, peer *context) error {
	if !s.peered(c.device, peer.device) {
		if err := allowPeer(c.device, peer.device, true); err != nil {
			return err
		}
	}
	if c.peers == nil {
		c.peers = map[*context]struct{}{}
	}
	c.peers[peer] = struct{}{}
	return nil
}

// disablePeer is the reverse, for the last one.
func (s *Session) disablePeer(c, peer *context) {
	delete(c.peers, peer)
	if c.device.context == nil || s.peered(c.device, peer.device) {
		return
	}
	if err := allowPeer(c.device, peer.device, false); err != nil {
		s.log.Warn("disable peer access", "gpu", c.device.ordinal, "peer", peer.device.ordinal, "error", err)
	}
}

// peered reports whether a context of one device has enabled one of the other.
func (s *Session) peered(d, other *device) bool {
	for _, c := range s.contexts {
		for peer := range c.peers {
			if c.device == d && peer.device == other {
				return true
			}
		}
	}
	return false
}

func allowPeer(d, other *device, allow bool) error {
	if c, asks := d.context.(gpu.Peering); asks {
		return c.AllowPeer(other.ordinal, allow)
	}
	return nil
}

func (s *Session) ctxDisablePeerAccess(call *Call, in *wire.CtxDisablePeerAccess) error {
	c, err := s.current(call)
	if err != nil {
		return err
	}
	peer, err := s.context(call, in.PeerContext)
	if err != nil {
		return err
	}
	if _, enabled := c.peers[peer]; !enabled {
		return &gpu.Error{Op: "disable peer access", Code: abi.PeerAccessNotEnabled}
	}
	return s.behind(call, func() error { // kernels that were submitted before may still
		if _, enabled := c.peers[peer]; enabled {
			s.disablePeer(c, peer)
		}
		return nil
	})
}

// unpeer ends all access by and to a context that ends.
func (s *Session) unpeer(c *context) {
	for peer := range maps.Clone(c.peers) {
		s.disablePeer(c, peer)
	}
	for _, other := range s.contexts {
		if _, enabled := other.peers[c]; enabled {
			s.disablePeer(other, c)
		}
	}
}

// savePeers lists the contexts whose memory this one's kernels may touch.
func (c *context) savePeers() (out []abi.Handle) {
	for peer := range c.peers {
		out = append(out, peer.object.Handle())
	}
	slices.Sort(out)
	return out
}

// restorePeers is for when all contexts are there.
func (s *Session) restorePeers(r *restoring, c *context, in []abi.Handle) error {
	for _, h := range in {
		peer := s.contexts[h.Index()]
		if peer == nil || peer.object.Handle() != h || peer.device == c.device {
			return damaged("%v is no peer", h)
		}
		if err := s.enablePeer(c, peer); err != nil {
			return fmt.Errorf("peer %v: %w", h, err)
		}
	}
	return nil
}
