// Package admit holds the policies that let jobs in. A job that has not been let in waits outside:
// no order sees it.
//
// What an order may do with jobs is not decided here, only how many of them it has before it at a
// time. Jobs are let in as they came, so that an order by arrival is the same under any of these;
// only a quota has a lane for each tenant.
//
// Read load.go first.
package admit
