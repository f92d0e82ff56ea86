package serve

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/control"
	"github.com/phos-gpu/phos/cluster/identity"
	"github.com/phos-gpu/phos/cluster/record"
)

// maxQuotas is how many accounts may have limits of their own: all are in one object.
const maxQuotas = 5000

// ListQuotas returns the quotas, or that of the caller.
func (s *clusterService) ListQuotas(ctx context.Context, _ *api.ListQuotasRequest) (*api.ListQuotasReply, error) {
	caller, leader, err := s.asked(ctx)
	if err != nil {
		return nil, err
	}
	reply := &api.ListQuotasReply{}
	return reply, leader.Ask(ctx, func(t control.Turn) error {
		quotas := t.Quotas()
		accounts := map[string]bool{caller.Account: true}
		if identity.May(caller, identity.View, identity.Target{Thing: identity.Settings}) {
			accounts = t.Owners()
			for account := range quotas.Accounts {
				accounts[account] = true
			}
			reply.Quotas = append(reply.Quotas, defaultView(quotas))
		}
		for _, account := range slices.Sorted(maps.Keys(accounts)) {
			if account != "" { // an administrator without an account
				reply.Quotas = append(reply.Quotas, quotaView(t, quotas, account))
			}
		}
		return nil
	})
}

// SetQuota changes limits.
func (s *clusterService) SetQuota(ctx context.Context, request *api.SetQuotaRequest) (*api.Quota, error) {
	caller, leader, err := s.administrator(ctx, "set quotas")
	if err != nil {
		return nil, err
	}
	account := request.GetAccount()
	if account != "" {
		if err := identity.CheckAccountName(account); err != nil {
			return nil, api.Invalid(err.Error())
		}
	}
	var reply *api.Quota
	return reply, leader.Ask(ctx, func(t control.Turn) error {
		quotas := t.Quotas()
		changed := quotas.Default
		if account != "" {
			changed = quotas.Accounts[account]
		}
		if err := change(&changed, request.GetLimits()); err != nil {
			return err
		}
		if account == "" {
			quotas.Default = changed
		} else {
			if quotas.Accounts == nil {
				quotas.Accounts = map[string]record.Quota{}
			}
			quotas.Accounts[account] = changed
		}
		if len(quotas.Accounts) > maxQuotas {
			return fmt.Errorf("%w: %d accounts have limits of their own; at most so many can", api.ErrRefused, maxQuotas)
		}
		t.SetQuotas(quotas, caller.Name)
		if reply = defaultView(quotas); account != "" {
			reply = quotaView(t, quotas, account)
		}
		return nil
	})
}

// RemoveQuota takes an account's own limits away, or those of the default.
func (s *clusterService) RemoveQuota(ctx context.Context, request *api.RemoveQuotaRequest) (*api.RemoveQuotaReply, error) {
	caller, leader, err := s.administrator(ctx, "remove quotas")
	if err != nil {
		return nil, err
	}
	return &api.RemoveQuotaReply{}, leader.Ask(ctx, func(t control.Turn) error {
		quotas, account := t.Quotas(), request.GetAccount()
		if _, found := quotas.Accounts[account]; !found && account != "" {
			return fmt.Errorf("%w: %.100q has no limits of its own", api.ErrNotFound, account)
		}
		delete(quotas.Accounts, account)
		if account == "" {
			quotas.Default = record.Quota{}
		}
		t.SetQuotas(quotas, caller.Name)
		return nil
	})
}

// change sets those limits of a quota that are set.
func change(q *record.Quota, to *api.Limits) error {
	if to == nil || to.Gpus == nil && to.Launches == nil && to.CodeBytes == nil {
		return api.Invalid("no limit is named: want gpus, launches or code")
	}
	for _, each := range []struct {
		into **record.Limit
		from *int64
	}{{&q.GPUs, to.Gpus}, {&q.Launches, to.Launches}, {&q.CodeBytes, to.CodeBytes}} {
		switch {
		case each.from == nil:
		case *each.from < int64(record.NoLimit):
			return api.Invalid(fmt.Sprintf("%d is no limit: want 0 or more, or none", *each.from))
		default:
			limit := record.Limit(*each.from)
			*each.into = &limit
		}
	}
	return nil
}

// defaultView returns the default for people.
func defaultView(quotas record.Quotas) *api.Quota {
	return &api.Quota{Own: limitsView(quotas.Default), Limits: limitsView(quotas.Default)}
}

// quotaView returns the quota of an account for people.
func quotaView(t control.Turn, quotas record.Quotas, account string) *api.Quota {
	use := t.Use(account)
	return &api.Quota{
		Account: account, Own: limitsView(quotas.Accounts[account]), Limits: limitsView(quotas.Of(account)),
		Gpus: use.GPUs, Launches: use.Launches, CodeBytes: use.CodeBytes,
	}
}

// limitsView converts limits.
func limitsView(q record.Quota) *api.Limits {
	return &api.Limits{Gpus: (*int64)(q.GPUs), Launches: (*int64)(q.Launches), CodeBytes: (*int64)(q.CodeBytes)}
}
