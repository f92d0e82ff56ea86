package etcd

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/phos-gpu/phos/cluster/store"
)

const (
	// firstPage and maxPage are how many objects List asks for at once.
	firstPage, maxPage = 50, 1000
	// pageBytes is about how many bytes of values the pages after the first have.
	pageBytes = 8 << 20
)

// List returns the objects with a prefix, page by page, all at the revision of the first page. If
// that revision is compacted while it reads, it begins again.
func (s *Store) List(ctx context.Context, prefix string) ([]store.Object, store.Revision, error) {
	if err := store.CheckPrefix(prefix); err != nil {
		return nil, 0, err
	}
	for {
		l := listing{store: s, from: s.path(prefix), end: clientv3.GetPrefixRangeEnd(s.path(prefix)), page: firstPage}
		err := l.read(ctx)
		switch {
		case errors.Is(err, store.ErrCompacted):
			continue
		case err != nil:
			return nil, 0, fmt.Errorf("list %s: %w", prefix, err)
		}
		return l.objects, store.Revision(l.revision), nil
	}
}

// listing is a List that is being read.
type listing struct {
	store     *Store
	from, end string // the keys that are still to be read
	page      int64
	revision  int64 // 0 before the first page
	objects   []store.Object
}

func (l *listing) read(ctx context.Context) error {
	for more := true; more; {
		var got *clientv3.GetResponse
		err := l.store.call(ctx, func(ctx context.Context) (err error) {
			got, err = l.store.client.Get(ctx, l.from, clientv3.WithRange(l.end),
				clientv3.WithLimit(l.page), clientv3.WithRev(l.revision))
			return err
		})
		if err != nil {
			return err
		}
		if l.revision == 0 {
			l.revision = got.Header.Revision
		}
		l.add(got)
		more = got.More
	}
	return nil
}

// add takes a page, and chooses the size of the next one by the values of this one: etcd builds an
// answer as a whole, in its memory and in ours.
func (l *listing) add(got *clientv3.GetResponse) {
	if len(got.Kvs) == 0 {
		return
	}
	bytes := 0
	for _, kv := range got.Kvs {
		bytes += len(kv.Key) + len(kv.Value)
		object := store.Object{Key: l.store.key(kv.Key), Value: kv.Value, Revision: store.Revision(kv.ModRevision)}
		l.objects = append(l.objects, object)
	}
	l.from = string(got.Kvs[len(got.Kvs)-1].Key) + "\x00"
	l.page = int64(min(max(pageBytes*len(got.Kvs)/bytes, firstPage), maxPage))
}
