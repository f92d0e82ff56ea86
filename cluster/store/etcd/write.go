package etcd

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/phos-gpu/phos/cluster/store"
	"github.com/phos-gpu/phos/internal/words"
)

// Put writes an object in one transaction that compares its revision and the epoch.
func (s *Store) Put(ctx context.Context, w store.Write) (store.Revision, error) {
	if err := store.CheckKey(w.Key); err != nil {
		return 0, err
	}
	if err := checkValue(w.Value); err != nil {
		return 0, fmt.Errorf("write %s: %w", w.Key, err)
	}
	revision, err := s.write(ctx, w, clientv3.OpPut(s.path(w.Key), string(w.Value)))
	if err != nil {
		return 0, fmt.Errorf("write %s: %w", w.Key, err)
	}
	return revision, nil
}

// Delete removes an object in such a transaction.
func (s *Store) Delete(ctx context.Context, w store.Write) error {
	if err := store.CheckKey(w.Key); err != nil {
		return err
	}
	if w.Replaces == store.New { // it would succeed if there is nothing to remove
		return fmt.Errorf("remove %s: %w: no revision is named", w.Key, store.ErrConflict)
	}
	if _, err := s.write(ctx, w, clientv3.OpDelete(s.path(w.Key))); err != nil {
		return fmt.Errorf("remove %s: %w", w.Key, err)
	}
	return nil
}

func checkValue(value []byte) error {
	if len(value) <= store.MaxValue {
		return nil
	}
	return fmt.Errorf("%w: %s of at most %s", store.ErrTooLarge,
		words.Bytes(uint64(len(value))), words.Bytes(store.MaxValue))
}

// write does one change if the object and the leadership are still those that w names. etcd's
// client sends it at most once: a second attempt after an unknown end would report a conflict with
// itself.
func (s *Store) write(ctx context.Context, w store.Write, change clientv3.Op) (store.Revision, error) {
	var done *clientv3.TxnResponse
	err := s.call(ctx, func(ctx context.Context) (err error) {
		done, err = s.client.Txn(ctx).If(s.conditions(w)...).Then(change).
			Else(clientv3.OpGet(s.leaderPath(), clientv3.WithKeysOnly())).Commit()
		return err
	})
	switch {
	case err != nil:
		return 0, err
	case done.Succeeded:
		return store.Revision(done.Header.Revision), nil
	case w.Epoch != store.NoEpoch && w.Epoch != epochOf(done):
		return 0, store.ErrDeposed
	}
	return 0, store.ErrConflict
}

// conditions are what a write compares. The revision of an object that does not exist is 0.
func (s *Store) conditions(w store.Write) []clientv3.Cmp {
	same := clientv3.Compare(clientv3.ModRevision(s.path(w.Key)), "=", int64(w.Replaces))
	if w.Epoch == store.NoEpoch {
		return []clientv3.Cmp{same}
	}
	return []clientv3.Cmp{same, clientv3.Compare(clientv3.CreateRevision(s.leaderPath()), "=", int64(w.Epoch))}
}

// epochOf returns the epoch that a refused write found.
func epochOf(refused *clientv3.TxnResponse) store.Epoch {
	for _, kv := range refused.Responses[0].GetResponseRange().Kvs {
		return store.Epoch(kv.CreateRevision)
	}
	return store.NoEpoch
}
