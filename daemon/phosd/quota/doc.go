// Package quota counts what each user holds of the things that all users share, and refuses
// requests, files and stream bytes beyond the user's share. It counts root's too, but does not
// limit it. Memory is only measured here, for the status, and refused in
// daemon/gpu/ledger/tenant.go.
//
// A share that is not configured is relative: a user may hold as much as is still free. One user
// gets at most half, two at most a third each, and something is always left for the next one. So
// the defaults fit any number of users.
//
// It has one lock, which is held for no call but those of Limit.Free. Read Quota.
package quota
