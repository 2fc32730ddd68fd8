package main

import (
	"github.com/swaggest/jsonschema-go"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/inforce"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/trace"
	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/shared/wire"
)

// kind is what the values of a field have in common beside their JSON type.
type kind struct {
	min, max float64  // of a number; none where both are 0
	length   [2]int64 // of a string or a list, least and most; none where both are 0
	pattern  string
	format   string
	values   []any  // all there are
	items    string // the kind of a list's items
	initial  any    // if left out
	example  any
	types    []jsonschema.SimpleType // of JSON, where Go's type does not say
}

// label is a DNS label, as package app checks it.
const label = `^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$`

// kinds are the kinds of fields, by the name that a field's tag gives.
//
//nolint:gochecknoglobals // a table; Go has no constant composite values
var kinds = map[string]kind{
	"project":     {pattern: label, example: "shop"},
	"environment": {pattern: label, example: "prod"},
	"app":         {pattern: label, example: "hello"},
	"app_name":    {pattern: `^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$`, example: "hello"},
	"namespace":   {pattern: `^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`, example: "shop-prod"},
	"username":    {pattern: `^[a-z0-9][-._a-z0-9]{0,39}$`, example: "ada.lovelace"},
	"password":    {length: [2]int64{12, 256}, example: "correct horse battery staple"},
	"role":        {values: all(app.Roles()), example: "developer"},
	"action":      {values: all(audit.Actions()), example: "key.revoke"},
	"outcome":     {values: all(audit.Outcomes())},
	"actor_kind":  {values: all(trace.Kinds())},
	"resource":    {example: "projects/shop/environments/prod"},
	"object":      {types: []jsonschema.SimpleType{jsonschema.Object, jsonschema.Null}},

	"host":       {example: "hello-shop-prod.apps.example.com"},
	"url":        {format: "uri", example: "https://hello-shop-prod.apps.example.com"},
	"port":       {min: 1, max: 65535, example: app.DefaultPort},
	"app_kind":   {values: all(app.Kinds())},
	"gate_state": {values: all(app.GateStates())},
	"repository": {length: [2]int64{1, 2048}, example: "https://git.example.com/shop/hello.git"},
	"branch":     {length: [2]int64{1, 255}, example: "main"},
	"folder":     {length: [2]int64{0, 512}, example: "services/api"},

	"image":         {length: [2]int64{1, 768}, example: "registry.example.com/hello:v2"},
	"digest":        {pattern: `^sha256:[0-9a-f]{64}$`},
	"commit":        {pattern: `^([0-9a-fA-F]{4,64})?$`, example: "9fceb02d0ae598e95dc970b74767f19372d61af8"},
	"number":        {min: 0, max: 1 << 53},
	"ordinal":       {min: 1, max: 1 << 53, example: 3},
	"trigger":       {values: all(deploy.Triggers())},
	"deploy_status": {values: all(deploy.Statuses())},
	"build_status":  {values: all(deploy.BuildStatuses())},
	"hook_status":   {values: all(wire.HookStatuses())},
	"ignored":       {values: []any{"ignored"}},
	"pong":          {values: []any{"pong"}},

	"plan_id":    {pattern: `^plan-[0-9a-z]+(-[0-9a-z]+)*$`, length: [2]int64{6, 68}, example: "plan-starter"},
	"plan_name":  {length: [2]int64{1, 63}, example: "Starter"},
	"rate":       {min: plan.MinRate, max: plan.MaxRate, example: 10},
	"burst":      {min: 1, max: plan.MaxBurst, example: 20},
	"quota":      {min: 1, max: plan.MaxQuota, example: 100_000},
	"period":     {values: all(plan.Periods()), example: "month"},
	"quota_mode": {values: all(plan.Modes()), example: "hard"},

	"key_id":        {pattern: `^key-[0-9a-z]{8}$`, example: "key-ab12cd34"},
	"prefix":        {pattern: `^[0-9a-z]{8}$`, example: "ab12cd34"},
	"full_key":      {pattern: `^sluice_[0-9a-z]{8}_[0-9A-Za-z]{38}$`},
	"key_name":      {length: [2]int64{0, apikey.MaxName}, example: "ci"},
	"scope":         {length: [2]int64{0, apikey.MaxApps}, items: "app"},
	"key_status":    {values: append(all(apikey.Statuses()), "expired")},
	"change":        {pattern: `^[0-9a-f]{16}[0-9a-z]{12}$`, example: "7ff9ad4c0d7a3f2fabcdefgh2345"},
	"replica_state": {values: all(inforce.States())},
	"usable_status": {values: all(apikey.Usable())},
	"grace":         {initial: "24h", example: "90s"},

	"day":       {format: "date", example: "2026-03-14"},
	"time":      {format: "date-time", example: "2026-12-31T23:59:59Z"},
	"instant":   {example: "2026-03-14"},
	"retention": {values: []any{usage.RetentionDays}},
	"count":     {min: 0, max: 1 << 53},
	"page_size": {min: 1, max: api.MaxPageSize, initial: api.DefaultPageSize},
}

// pathKinds are the kinds of the parameters of paths.
//
//nolint:gochecknoglobals // a table; Go has no constant composite values
var pathKinds = map[string]string{
	"project": "project", "environment": "environment", "app": "app", "namespace": "namespace", "username": "username",
	"plan_id": "plan_id", "key_id": "key_id", "change": "change", "revision": "ordinal", "build": "ordinal",
}

// all are the values of a closed vocabulary.
func all[T ~string](values []T) []any {
	list := make([]any, len(values))
	for i, v := range values {
		list[i] = string(v)
	}
	return list
}

// limit writes what k says into a schema. A list's length is its items'; null, where it
// is allowed, is one more value.
func (k kind) limit(s *jsonschema.Schema) {
	for _, t := range k.types {
		s.AddType(t)
	}
	if k.min != 0 || k.max != 0 {
		s.WithMinimum(k.min).WithMaximum(k.max)
	}
	if k.length[1] != 0 {
		if s.HasType(jsonschema.Array) {
			s.WithMinItems(k.length[0]).WithMaxItems(k.length[1]).WithUniqueItems(true)
			kinds[k.items].limit(s.Items.SchemaOrBool.TypeObject)
		} else {
			s.WithMinLength(k.length[0]).WithMaxLength(k.length[1])
		}
	}
	if k.pattern != "" {
		s.WithPattern(k.pattern)
	}
	if k.format != "" {
		s.WithFormat(k.format)
	}
	if k.values != nil {
		s.WithEnum(k.values...)
		if s.HasType(jsonschema.Null) {
			s.Enum = append(s.Enum, nil)
		}
	}
	if k.initial != nil {
		s.WithDefault(k.initial)
	}
	if k.example != nil {
		s.WithExamples(k.example)
	}
}
