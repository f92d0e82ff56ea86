package pager

import "github.com/phos-gpu/phos/internal/linux/fdpass"

// Role is the argument with which phosd starts itself as a pager.
const Role = "pager"

// orderFD is the pager's connection to the phosd that started it.
const orderFD = 3

// Order is sent to a pager by phosd. The pager inherits files: the directory for CRIU's images, the
// link to the restorer, and the packs.
type Order struct {
	// Image is the image's name, for messages.
	Image string `json:"image"`
	// Tree is the hash of the list of CRIU's files.
	Tree string `json:"tree"`
	// Root is the pid of the tree's root: the list has its files below this name.
	Root int `json:"root"`
	// Eager is set if the processes run when they have all their memory. Otherwise filling yields to
	// them.
	Eager bool `json:"eager,omitempty"`
	// Packs is how many packs it has inherited.
	Packs int `json:"packs"`
}

// The files that it inherits.
const (
	imagesFile = iota
	linkFile
	packFiles // this one and all that follow
)

// answer is the pager's answer, when CRIU's images are complete.
type answer struct {
	fdpass.Outcome
	// LazyBytes is how much memory comes later.
	LazyBytes uint64 `json:"lazy_bytes"`
}

// fromRestorer is a message on the link.
type fromRestorer struct {
	// Process is the pid of a process in its own namespace; its userfaultfd is with the message.
	Process int `json:"process,omitempty"`
	// Restored is set when all processes are restored.
	Restored bool `json:"restored,omitempty"`
}

// fromPager is a message on the link. Only one field is set.
type fromPager struct {
	// Forked numbers the address space of a new child, whose userfaultfd is with the message. The
	// numbers are negative; those of restored processes are their pids.
	Forked int `json:"forked,omitempty"`
	// Done is an address space that has all of its memory, or is gone.
	Done int `json:"done,omitempty"`
	// Failed says why the tree must not run on.
	Failed string `json:"failed,omitempty"`
}
