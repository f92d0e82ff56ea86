package inventory_test

import (
	"testing"
	"time"

	"github.com/phos-gpu/phos/daemon/phosd/devices/inventory"
)

func TestHealth(t *testing.T) {
	var h inventory.Health
	one := &inventory.GPU{Index: 0, UUID: "GPU-a", BusID: "00000000:01:00.0"}
	two := &inventory.GPU{Index: 1, UUID: "GPU-b", BusID: "00000000:02:00.0"}
	at := time.Unix(1000, 0)
	for i := range 20 {
		h.Note(inventory.Event{UUID: "GPU-a", Xid: 31}, at.Add(time.Duration(i)*time.Second))
	}
	if got := h.Of(one); len(got) != 16 || !got[15].At.Equal(at.Add(19*time.Second)) || len(h.Of(two)) != 0 {
		t.Errorf("events: %+v", got)
	}
	if h.Lost(one) != "" {
		t.Errorf("lost: %q", h.Lost(one))
	}
	// A lost GPU may have no UUID.
	h.Note(inventory.Event{BusID: "00000000:02:00.0", Index: -1, Xid: inventory.XidLost}, at)
	if got := h.Lost(two); got != "the GPU is lost: Xid 79, it has fallen off the bus" || h.Lost(one) != "" {
		t.Errorf("lost: %q", got)
	}
	h.Note(inventory.Event{Index: 0, Xid: 95}, at)
	if h.Lost(one) == "" {
		t.Error("an event by index is lost")
	}
	if got := h.Lost(&inventory.GPU{Index: 7, Lost: "gone"}); got != "the GPU is lost: gone" {
		t.Errorf("lost: %q", got)
	}
}
