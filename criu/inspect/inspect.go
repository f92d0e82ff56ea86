package inspect

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/criu/hardlink"
	"github.com/phos-gpu/phos/criu/runner"
	"github.com/phos-gpu/phos/internal/linux/proc"
	"github.com/phos-gpu/phos/internal/linux/rootdir"
)

// Findings describe a tree and the options that CRIU needs for it.
type Findings struct {
	ckpt.Tree
	User runner.User
	// Root is the root's pid in the tree's own pid namespace.
	Root int
	// PIDs are those of all processes and threads in the tree's own pid namespace.
	PIDs []int
	// Outside maps pids of the tree's own namespace to phosd's, where they differ.
	Outside map[int]int
	// ShellJob is set if the root's session leader is another process.
	ShellJob bool
	// JobTerminal is the Endpoint of the controlling terminal of a session outside of the tree; 0
	// means none.
	JobTerminal uint32
	// External are CRIU's names of files that it must not save.
	External []string
	// Connected is set if both ends of a TCP connection are in the tree.
	Connected bool
	// Listening are the TCP addresses on which the tree listens.
	Listening []netip.AddrPort
	// Datagrams is set if datagram sockets are connected to named sockets outside.
	Datagrams bool
	// Links are removed names of files that CRIU needs during the dump.
	Links []hardlink.Link
	// SocketDirs are the directories in which the tree's unix sockets are bound.
	SocketDirs []string
	// Namespaces are the kinds of namespaces that CRIU must enter.
	Namespaces []string
	// Foreign are files of other mount namespaces.
	Foreign []Foreign
}

// Options configure an inspection.
type Options struct {
	// Ours reports whether a path is a file through which phos serves its programs, which is
	// restored in another way, or phosd's socket, to which programs connect for a moment.
	Ours func(path string) bool
}

// inspection is an inspection in progress.
type inspection struct {
	Options
	Findings
	// root is the root directory of the tree's root process.
	root    *rootdir.Root
	members []*member
	byPID   map[int]*member
	// self are the namespaces of this thread.
	self    map[string]string
	pipes   map[uint64]*pipe
	sockets map[uint64]*socket
	ttys    map[string]*terminal
	masters map[int]bool
	written map[string]*ckpt.WrittenFile
	// locks are the strongest locks of the tree, by path.
	locks  map[string]string
	opened map[string]opened
	seen   map[string]bool
	// readErr is the first cause why something could not be read; nil if all was.
	readErr error
}

// member is a process of the tree.
type member struct {
	*proc.Stat
	status      *proc.Status
	name        string
	namespaces  map[string]string
	descriptors []proc.Descriptor
	mappings    []proc.Mapping
}

// direct is proc.DirectIO of what was read.
func (m *member) direct() bool {
	own, err := proc.OwnFiles(m.PID)
	if err != nil || own {
		return true
	}
	uncached, err := proc.UncachedMounts(m.PID)
	return err != nil || slices.ContainsFunc(m.mappings, proc.Mapping.AsynchronousIO) ||
		slices.ContainsFunc(m.descriptors, func(d proc.Descriptor) bool { return d.Direct() || uncached[d.Mount] })
}

func (m *member) String() string { return fmt.Sprintf("pid %d (%s)", m.PID, m.name) }

// Inspect inspects the tree of a root.
func Inspect(ctx context.Context, root proc.Identity, options Options) (*Findings, error) {
	if options.Ours == nil {
		options.Ours = func(string) bool { return false }
	}
	s := &inspection{
		Options: options, byPID: map[int]*member{}, pipes: map[uint64]*pipe{}, sockets: map[uint64]*socket{},
		ttys: map[string]*terminal{}, masters: map[int]bool{}, written: map[string]*ckpt.WrittenFile{},
		opened: map[string]opened{}, seen: map[string]bool{}, locks: map[string]string{},
	}
	if err := s.readProcesses(ctx, root); err != nil {
		return nil, fmt.Errorf("inspect pid %d: %w", root.PID, err)
	}
	tree, err := rootdir.Of(root)
	if err != nil {
		return nil, fmt.Errorf("inspect pid %d: %w", root.PID, err)
	}
	defer tree.Close()
	s.root = tree
	s.checkProcesses()
	s.checkNamespaces()
	if err := s.findForeign(); err != nil {
		return nil, fmt.Errorf("inspect pid %d: %w", root.PID, err)
	}
	for _, m := range s.members {
		s.checkDescriptors(m)
		s.checkMappings(m)
	}
	if err := s.checkSockets(); err != nil {
		return nil, fmt.Errorf("inspect pid %d: %w", root.PID, err)
	}
	s.checkPipes()
	s.checkTerminals()
	s.listFiles()
	if err := s.checkAccess(); err != nil {
		return nil, fmt.Errorf("inspect pid %d: %w", root.PID, err)
	}
	if s.readErr != nil {
		return nil, fmt.Errorf("inspect pid %d: %w", root.PID, s.readErr)
	}
	slices.Sort(s.External)
	return &s.Findings, nil
}

// noteUnknown keeps an error that leaves the tree's state unknown, because then the findings are
// incomplete. Other errors may mean that a process has ended.
func (s *inspection) noteUnknown(err error) {
	if proc.Unknown(err) {
		s.readErr = err
	}
}

// readProcesses reads the state of all processes. Those that end in the meantime are left out.
func (s *inspection) readProcesses(ctx context.Context, root proc.Identity) (err error) {
	if s.self, err = proc.Namespaces(0, namespaceKinds); err != nil {
		return err
	}
	tree, err := proc.Tree(root)
	if err != nil {
		return err
	}
	for _, stat := range tree {
		if err := ctx.Err(); err != nil {
			return err
		}
		m, err := readProcess(ctx, stat)
		if proc.Gone(err) && stat.PID != root.PID {
			continue
		}
		if err != nil {
			return err
		}
		s.members = append(s.members, m)
		s.byPID[m.PID] = m
	}
	return s.describe()
}

// readProcess reads the state of one process. A process that is exiting has no namespaces but is
// not a zombie yet: wait until it is.
func readProcess(ctx context.Context, stat *proc.Stat) (*member, error) {
	for {
		m, err := readMember(stat)
		if !errors.Is(err, proc.ErrEnding) {
			return m, err
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("pid %d: %w: %w", stat.PID, err, context.Cause(ctx))
		}
		time.Sleep(time.Millisecond) //nolint:forbidigo // the kernel has no event for it
		now, err := proc.ReadStat(stat.PID)
		if err != nil {
			return nil, err
		}
		stat = now
	}
}

// readMember reads the state of one process. The error is proc.ErrEnding while it is exiting.
func readMember(stat *proc.Stat) (*member, error) {
	status, err := proc.ReadStatus(stat.PID)
	if err != nil {
		return nil, err
	}
	m := &member{Stat: stat, status: status, name: stat.Name()}
	if stat.Zombie() {
		return m, nil
	}
	if m.namespaces, err = proc.Namespaces(stat.PID, namespaceKinds); err != nil {
		return nil, err
	}
	if m.descriptors, err = proc.Descriptors(stat.PID); err != nil {
		return nil, err
	}
	m.mappings, err = proc.Mappings(stat.PID)
	return m, err
}

// describe fills in the findings that need no checks.
func (s *inspection) describe() error {
	root := s.members[0]
	s.User = runner.User{UID: root.status.UIDs[0], GID: root.status.GIDs[0], Groups: root.status.Groups}
	s.Root = root.status.InnermostPID()
	s.Contained = !proc.SameRoot(root.Identity)
	s.ShellJob = root.Session != root.PID
	for _, m := range s.members {
		s.Processes = append(s.Processes, ckpt.Process{
			Identity: m.Identity, Parent: m.Parent, UID: m.status.UIDs[0], GID: m.status.GIDs[0], Command: m.name,
			Inner: m.status.InnermostPID(), Threads: m.Threads, ResidentBytes: m.status.ResidentBytes,
			Direct:  m.direct(),
			Library: findLibrary(m.mappings),
			Mapped:  mappedPaths(m.mappings),
		})
		if inner := m.status.InnermostPID(); inner != m.PID {
			if s.Outside == nil {
				s.Outside = map[int]int{}
			}
			s.Outside[inner] = m.PID
		}
		threads, err := proc.Threads(m.PID)
		if err != nil && !proc.Gone(err) {
			return err
		}
		for _, thread := range threads {
			status, err := proc.ReadStatus(thread)
			if err == nil {
				s.PIDs = append(s.PIDs, status.InnermostPID())
			} else if !proc.Gone(err) {
				return err
			}
		}
	}
	return nil
}

// refuse adds an obstacle, once.
func (s *inspection) refuse(subject, reason, remedy string) {
	s.note(ckpt.Obstacle{Subject: subject, Reason: reason, Remedy: remedy})
}

// note adds an obstacle, once.
func (s *inspection) note(o ckpt.Obstacle) {
	if key := o.Subject + o.Reason; !s.seen[key] {
		s.seen[key] = true
		s.Obstacles = append(s.Obstacles, o)
	}
}

// addEndpoint adds an endpoint and returns its number.
func (s *inspection) addEndpoint(e image.Endpoint) uint32 {
	e.ID = uint32(len(s.Endpoints) + 1)
	s.Endpoints = append(s.Endpoints, e)
	return e.ID
}

// places are the descriptors under which something is open.
type places struct {
	pids, numbers []int
}

func (p *places) add(pid, number int) {
	p.pids, p.numbers = append(p.pids, pid), append(p.numbers, number)
}

// list returns "pid N fd N" for each place.
func (p *places) list() (texts []string) {
	for i, pid := range p.pids {
		texts = append(texts, fmt.Sprintf("pid %d fd %d", pid, p.numbers[i]))
	}
	return texts
}

// standard returns the number under which the root has it as a standard descriptor, or -1.
func (p *places) standard(root int) int {
	for i, pid := range p.pids {
		if pid == root && p.numbers[i] <= 2 {
			return p.numbers[i]
		}
	}
	return -1
}

// anyStandard reports whether a process has it as a standard descriptor.
func (p *places) anyStandard() bool {
	return slices.ContainsFunc(p.numbers, func(number int) bool { return number <= 2 })
}

// descriptorSubject names a descriptor of a process in an obstacle.
func (s *inspection) descriptorSubject(m *member, number int) string {
	return fmt.Sprintf("%s, descriptor %d", m, number)
}

// subject names the first descriptor of p in an obstacle.
func (s *inspection) subject(p *places) string {
	return s.descriptorSubject(s.byPID[p.pids[0]], p.numbers[0])
}
