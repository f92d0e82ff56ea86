// Package meeting decides how the saves of several replicas that make one cut go on: each waits at
// certain points until all are there (package ckpt has the points). If one is busy, all try again;
// if one has failed, there is no cut.
//
// It knows neither nodes nor messages, and waits for nothing. The leader tells it what agents say,
// and passes its verdicts on. It remembers nothing of what an earlier leader has decided: parts of
// which some have had a verdict of that one, and others have not, make no cut, and try again.
//
// Read meeting.go.
package meeting
