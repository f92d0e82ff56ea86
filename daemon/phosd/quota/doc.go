// Package quota counts what each user holds of the things that all users share, and refuses what
// exceeds the user's share. It counts root's too, but does not limit it.
//
//   - Taken by claims: programs, requests, prepared images, followed restores, files, stream bytes,
//     work bytes.
//   - Measured: image bytes, which are refused by their caller if Measure returns an error, and
//     memory, which is only shown here. The ledger refuses it: daemon/gpu/ledger/share.go that of
//     GPUs, daemon/gpu/ledger/tenant.go pinned memory.
//
// A share that is not configured is relative: a user may hold as much as is still free. One user
// gets at most half, two at most a third each, and something is always left for the next one. So
// the defaults fit any number of users.
//
// Lock order: Claim.mu before Quota.mu. Quota.mu is not held during Limit.Free, which may block;
// Claim.mu is. Read Quota.
package quota
