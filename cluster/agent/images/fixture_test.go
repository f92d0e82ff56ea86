package images

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/store"
	"github.com/phos-gpu/phos/ckpt/store/contents"
	"github.com/phos-gpu/phos/cluster/agent/saver"
	"github.com/phos-gpu/phos/cluster/agent/supervisor"
	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/cluster/identity/authority"
	"github.com/phos-gpu/phos/cluster/identity/channel"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case SendRole:
			os.Exit(SendMain(os.Args[2:]))
		case ReceiveRole:
			os.Exit(ReceiveMain(os.Args[2:]))
		}
	}
	os.Exit(m.Run())
}

// check ends the test with an error.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// member returns what a node shows and trusts.
func member(t *testing.T, ca *authority.Authority, name string) *channel.Holder {
	t.Helper()
	key, err := authority.NewKey()
	check(t, err)
	subject := identity.Subject{Cluster: ca.Cluster(), Kind: identity.Node, Name: name}
	request, err := authority.NewRequest(subject, key)
	check(t, err)
	certificate, err := ca.IssueNode(request, name, time.Now(), authority.NodeLife)
	check(t, err)
	bundle, err := authority.NewBundle(ca.Certificate())
	check(t, err)
	return channel.NewHolder(authority.Pair{Certificate: certificate, CA: ca.Certificate(), Key: key}.TLS(), bundle)
}

// peers are two nodes. The first one lends what lend says.
type peers struct {
	*testing.T
	ca            *authority.Authority
	has, wants    *channel.Holder
	address       string
	lend          func(*api.MayFetchRequest) (Loan, error)
	image, work   string // of the first node
	target, works string // of the second one
	patience      time.Duration
}

// Lend implements Lender.
func (p *peers) Lend(_ context.Context, asked *api.MayFetchRequest) (Loan, error) {
	return p.lend(asked)
}

// saved names the attempt whose image is lent.
var saved = supervisor.Key{Launch: "l-one", Replica: 1, Attempt: 3}

// start starts a server with an image of some chunks, and a working directory.
func start(t *testing.T, chunks ...byte) *peers {
	t.Helper()
	ca, err := authority.Create("abcdefghijklmnop", time.Now())
	check(t, err)
	p := &peers{T: t, ca: ca, has: member(t, ca, "a"), wants: member(t, ca, "b"), patience: time.Minute}
	p.image, p.work, p.target, p.works = t.TempDir(), t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "work")
	writeImage(t, p.image, chunks...)
	check(t, os.WriteFile(filepath.Join(p.work, "note"), []byte("kept"), 0o640))
	p.lend = func(*api.MayFetchRequest) (Loan, error) {
		return Loan{As: self(), Order: SendOrder{Dir: p.image, Generation: 1, Work: []string{p.work}}}, nil
	}
	p.address = p.serve(p.has)
	return p
}

// serve starts a server of a node, and returns its address.
func (p *peers) serve(as *channel.Holder) string {
	p.Helper()
	server, err := Listen("127.0.0.1:0", as, p, slog.New(slog.DiscardHandler))
	check(p, err)
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan struct{})
	go func() { defer close(served); server.Serve(ctx) }()
	p.Cleanup(func() { stop(); <-served })
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(server.Port()))
}

// self is the owner that the test runs as.
func self() saver.Owner { return saver.Owner{UID: uint32(os.Getuid()), GID: uint32(os.Getgid())} }

// fetch fetches the image from an address.
func (p *peers) fetch(address string, others ...string) error {
	p.Helper()
	_, err := p.count(address, others...)
	return err
}

// count also returns how many bytes were told to have come.
func (p *peers) count(address string, others ...string) (bytes uint64, err error) {
	p.Helper()
	f := Fetcher{Source: p.wants, Patience: p.patience}
	return bytes, f.Fetch(p.Context(), Want{
		From: &api.ImageSource{Node: "a", Address: address, Key: identity.FingerprintOf(p.has.Certificate().Leaf).String()}, Of: saved, As: self(),
		Order: ReceiveOrder{Dir: p.target, Generation: 1, Others: others, Work: []string{p.works}},
	}, func() error {
		if err := os.RemoveAll(p.works); err != nil {
			return err
		}
		return os.Mkdir(p.works, 0o700)
	}, func(now uint64) { bytes = now })
}

// key seals the test's images.
var key = image.NewKey([32]byte{1})

// chunk returns a content that a seed determines.
func chunk(seed byte) []byte {
	return bytes.Repeat([]byte{seed, seed + 1, 3}, image.ChunkBytes/3+1)[:image.ChunkBytes]
}

// writeImage commits an image with some chunks as one file.
func writeImage(t testing.TB, path string, chunks ...byte) {
	t.Helper()
	var content []byte
	for _, seed := range chunks {
		content = append(content, chunk(seed)...)
	}
	file, err := os.Open(path)
	check(t, err)
	defer file.Close()
	dir, err := store.Init(file)
	check(t, err)
	defer dir.Close()
	transaction, err := dir.Begin(t.Context())
	check(t, err)
	pack, err := transaction.NewPack()
	check(t, err)
	defer pack.Close()
	writer := contents.NewWriter(pack, nil, contents.WriterOptions{})
	entry, err := writer.PutFile(t.Context(), "7/pages-1.img", bytes.NewReader(content))
	check(t, err)
	tree, err := writer.PutTree(t.Context(), &image.Tree{Entries: []image.Entry{entry}})
	check(t, err)
	check(t, writer.Close())
	sealed, err := image.SealManifest(&image.Manifest{
		Version: image.Version, Generation: transaction.Generation(),
		CPU: image.CPUHalf{Tree: tree.String(), Bytes: entry.Bytes},
	}, key)
	check(t, err)
	check(t, transaction.Commit(t.Context(), sealed))
}

// verify checks that an image is whole, and the same as that of the first node.
func (p *peers) verify(path string) {
	p.Helper()
	dir := p.open(path)
	defer dir.Close()
	found, err := dir.Verify(p.Context(), nil)
	if err != nil || len(found.Problems) > 0 {
		p.Errorf("%s: %v, %v", path, err, found)
	}
	origin := p.open(p.image)
	defer origin.Close()
	want, err := origin.Manifest(1)
	check(p, err)
	if got, err := dir.Manifest(1); err != nil || !bytes.Equal(got, want) {
		p.Errorf("%s has another manifest: %v", path, err)
	}
}

// open opens an image that is there.
func (p *peers) open(path string) *store.Dir {
	p.Helper()
	dir, err := openImage(path)
	check(p, err)
	return dir
}
