package control

import (
	"slices"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/record"
	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// inventory notes what an agent says that its node has.
func (l *Leader) inventory(n *node, said *api.Inventory) {
	n.reported, n.foreign = inventoryOf(said), foreignOf(said)
	l.takeInventory(n)
}

// takeInventory makes what an agent has said what the node has. GPUs of a node where launches have
// some keep their numbers: other ones count once none does, and one that is not there any longer
// gets nothing new.
func (l *Leader) takeInventory(n *node) {
	next := n.reported
	if len(next.GPUs) == 0 && next.PhosdError != "" {
		next.GPUs = n.Inventory.GPUs // they are not known now
	}
	n.waiting = !sameGPUs(n.Inventory.GPUs, next.GPUs) && l.holdsGPUs(n)
	if n.waiting {
		next.GPUs = withoutLost(n.Inventory.GPUs, next.GPUs)
	}
	if n.Inventory.Equal(next) {
		return
	}
	if n.waiting {
		l.log.Warn("node's GPUs have changed while launches run there", "node", n.Name)
	}
	same := onlyForeignDiffers(n.Inventory, next)
	n.Inventory = next
	l.changedNodes[n] = struct{}{}
	l.factsChanged(n)
	switch {
	case !n.open:
	case same:
		l.queues[0].tellForeign(n)
	default: // the schedulers look at a node's GPUs when it opens
		l.setOpen(n, false)
		l.lookAtLease(n)
	}
}

// withoutLost returns the GPUs that a node had, as they are now. Those that it has no longer are
// bad.
func withoutLost(had, has []record.GPU) []record.GPU {
	now := slices.Clone(had)
	for i := range now {
		at := slices.IndexFunc(has, func(g record.GPU) bool { return sameGPU(g, now[i]) })
		if at < 0 {
			now[i].Bad = "the node has lost it"
			continue
		}
		now[i] = has[at]
	}
	return now
}

// holdsGPUs reports whether launches have GPUs of a node, or will start with some.
func (l *Leader) holdsGPUs(n *node) bool {
	for _, r := range n.live {
		if len(r.gpus) > 0 {
			return true
		}
	}
	for _, p := range l.queues[0].parts {
		if slices.ContainsFunc(p.on, func(gpu cluster.GPU) bool { return gpu.Node == n.id }) {
			return true
		}
	}
	return false
}

// inventoryOf converts an inventory of a message.
func inventoryOf(said *api.Inventory) record.Inventory {
	i := record.Inventory{
		CPUs: int(said.GetCpus()), MemoryBytes: said.GetMemoryBytes(), OS: said.GetOs(), Kernel: said.GetKernel(),
		Phosd: said.GetPhosdVersion(), PhosdError: said.GetPhosdError(), ChoosesGPUs: said.GetChoosesGpus(),
		ImagesPort: int(said.GetImagesPort()), SavesTogether: said.GetSavesTogether(), Networks: said.GetNetworks(),
	}
	for _, g := range said.GetGpus() {
		i.GPUs = append(i.GPUs, record.GPU{
			Index: int(g.GetIndex()), Name: g.GetName(), UUID: g.GetUuid(), MemoryBytes: g.GetMemoryBytes(),
			Software: g.GetSoftware(), Foreign: int(g.GetForeign()), Bad: g.GetBad(),
		})
	}
	return i
}

// sameGPUs reports whether two lists have the same devices in the same order.
func sameGPUs(a, b []record.GPU) bool {
	return slices.EqualFunc(a, b, sameGPU)
}

// sameGPU reports whether two descriptions are of one device.
func sameGPU(a, b record.GPU) bool {
	return a.Index == b.Index && a.Name == b.Name && a.UUID == b.UUID && a.MemoryBytes == b.MemoryBytes
}

// foreignOf returns the processes of no launch that use GPUs of a node, by the GPU's index. They
// are not kept in the store: each agent says them to each leader.
func foreignOf(said *api.Inventory) map[int][]*api.ForeignProcess {
	found := map[int][]*api.ForeignProcess{}
	for _, g := range said.GetGpus() {
		if g.GetForeign() > 0 {
			found[int(g.GetIndex())] = g.GetForeignProcesses()
		}
	}
	return found
}

// onlyForeignDiffers reports whether two inventories are the same but for foreign use.
func onlyForeignDiffers(a, b record.Inventory) bool {
	a.GPUs, b.GPUs = withoutForeign(a.GPUs), withoutForeign(b.GPUs)
	return a.Equal(b)
}

// withoutForeign returns GPUs as if nothing foreign used them.
func withoutForeign(gpus []record.GPU) []record.GPU {
	bare := slices.Clone(gpus)
	for i := range bare {
		bare[i].Foreign = 0
	}
	return bare
}

// tellForeign tells the scheduler which GPUs of an open node count as taken, as processes of no
// launch use them, and which no longer do.
func (q *queue) tellForeign(n *node) {
	var now uint64
	for i := range n.Inventory.GPUs[:min(len(n.Inventory.GPUs), scheduler.MaxGPUsPerNode)] {
		bit := uint64(1) << i
		occupied := n.Inventory.GPUs[i].Foreign > 0
		if occupied {
			now |= bit
		}
		if occupied == (n.occupied&bit != 0) {
			continue
		}
		kind := scheduler.Vacated
		if occupied {
			kind = scheduler.Occupied
		}
		q.mail.Post(scheduler.Event{Kind: kind, Node: n.id, GPU: int32(i)})
	}
	n.occupied = now
}
