package main

import (
	"slices"

	"github.com/swaggest/jsonschema-go"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/identity/servicetoken"
	"github.com/sluicegate/sluice/shared/identity/user"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/shared/wire"
)

// kind restricts the values of a field, in addition to its JSON type.
type kind struct {
	min, max float64  // of a number; unbounded if both are 0
	length   [2]int64 // minimum and maximum of a string or list; unbounded if both are 0
	pattern  string
	format   string
	values   []any  // allowed values
	items    string // kind of the items of a list
	initial  any    // default
	example  any
	types    []jsonschema.SimpleType // JSON types, if the Go type does not determine them
}

const label = `^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$`

// kinds contains the kinds by their name in a field's tag.
//
//nolint:gochecknoglobals // a constant table
var kinds = map[string]kind{
	"project":       {pattern: label, example: "shop"},
	"environment":   {pattern: label, example: "prod"},
	"app":           {pattern: label, example: "hello"},
	"app_name":      {pattern: `^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$`, example: "hello"},
	"namespace":     {pattern: `^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`, example: "shop-prod"},
	"username":      {pattern: `^[a-z0-9][-._a-z0-9]{0,39}$`, example: "ada.lovelace"},
	"caller":        {pattern: `^(token:|program:)?[a-z0-9][-._a-z0-9]{0,39}$`, example: "ada.lovelace"},
	"password":      {length: [2]int64{12, 256}, example: "correct horse battery staple"},
	"role":          {values: all(app.Roles()), example: "developer"},
	"user_state":    {values: all(user.States()), example: "active"},
	"action":        {values: all(audit.Actions()), example: "key.revoke"},
	"audit_action":  {values: all(api.Allowed("audit_action")), example: "key.revoke"},
	"outcome":       {values: all(audit.Outcomes())},
	"activity_kind": {values: all(api.Allowed("activity_kind")), example: "deployments"},
	"work_status":   {values: distinct(all(deploy.Statuses()), all(deploy.BuildStatuses()), all(hook.Results()))},
	"actor_kind":    {values: all(reqctx.Kinds())},
	"resource":      {example: "projects/shop/environments/prod"},
	"object":        {types: []jsonschema.SimpleType{jsonschema.Object, jsonschema.Null}},

	"former_app": {example: "shop-prod.hello"},
	"host":       {example: "hello-shop-prod.apps.example.com"},
	"url":        {format: "uri", example: "https://hello-shop-prod.apps.example.com"},
	"port":       {min: 1, max: 65535, example: app.DefaultPort},
	"app_kind":   {values: all(app.Kinds())},
	"gate_state": {values: all(app.GateStates())},
	"preflight":  {values: all(app.Preflights())},
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
	"registries":    {items: "registry"},
	"registry":      {length: [2]int64{1, 255}, example: "registry.example.com/shop"},
	"app_status":    {values: all(deploy.AppStatuses())},
	"build_status":  {values: all(deploy.BuildStatuses())},
	"hook_status":   {values: all(wire.HookStatuses())},
	"hook_result":   {values: all(hook.Results())},
	"hook_test":     {values: all(wire.HookTests())},
	"issuer":        {example: "https://token.actions.githubusercontent.com"},
	"issuers":       {items: "issuer"},
	"provider":      {values: all(app.Providers()), initial: "other"},
	"http_status":   {min: 100, max: 599, example: 200},
	"ignored":       {values: []any{"ignored"}},
	"pong":          {values: []any{"pong"}},

	"plan_id":    {pattern: `^plan-[0-9a-z]+(-[0-9a-z]+)*$`, length: [2]int64{6, 68}, example: "plan-starter"},
	"plan_name":  {length: [2]int64{1, 63}, example: "Starter"},
	"rate":       {min: plan.MinRate, max: plan.MaxRate, example: 10},
	"burst":      {min: 1, max: plan.MaxBurst, example: 20},
	"quota":      {min: 1, max: plan.MaxQuota, example: 100_000},
	"period":     {values: all(plan.Periods()), example: "month"},
	"quota_mode": {values: all(plan.Modes()), example: "hard"},

	"forecast_rate": {values: []any{wire.Unknown}},
	"observed":      {values: []any{wire.NotObserved}},

	"key_id":        {pattern: `^key-[0-9a-z]{8}$`, example: "key-ab12cd34"},
	"prefix":        {pattern: `^[0-9a-z]{8}$`, example: "ab12cd34"},
	"leaked":        {pattern: `^(` + apikey.Pattern + `|` + servicetoken.Pattern + `)$`},
	"full_key":      {pattern: `^` + apikey.Pattern + `$`},
	"key_name":      {length: [2]int64{0, apikey.MaxName}, example: "ci"},
	"scope":         {length: [2]int64{0, apikey.MaxApps}, items: "app"},
	"scope_kind":    {values: all(apikey.ScopeKinds())},
	"key_ids":       {length: [2]int64{1, wire.MaxBulk}, items: "key_id"},
	"tag":           {pattern: `^[a-z0-9-]{1,32}$`, example: "batch"},
	"tags":          {length: [2]int64{0, apikey.MaxTags}, items: "tag"},
	"some_tags":     {length: [2]int64{1, apikey.MaxTags}, items: "tag"},
	"unused":        {example: "2160h"},
	"changed":       {values: all(wire.KeyOutcomes())},
	"key_status":    {values: all(api.Allowed("key_status"))},
	"key_sort":      {values: all(api.Allowed("key_sort")), initial: "id"},
	"leak_policy":   {values: all(apikey.LeakPolicies())},
	"leaked_secret": {values: all(wire.LeakedSecrets())},
	"found_at":      {example: "https://git.example.com/shop/hello/blob/main/deploy.sh"},
	"secret_state":  {values: all(wire.SecretStates())},
	"docs_group":    {example: "keys"},
	"search":        {length: [2]int64{0, 200}, example: "billing"},
	"request_id":    {pattern: `^[-_0-9A-Za-z]{1,64}$`, example: "7Q2ZLOKXH3BDRJ4ZC5VJ6T5MWE"},
	"change":        {pattern: `^[0-9a-f]{16}[0-9a-z]{12}$`, example: "7ff9ad4c0d7a3f2fabcdefgh2345"},
	"replica_state": {values: all(checkers.States())},
	"usable_status": {values: all(apikey.Usable())},
	"grace":         {initial: "24h", example: "90s"},

	"event_days":    {values: []any{14, 1}, example: 14},
	"event_percent": {values: []any{80, 100}, example: 80},

	"trust_id":     {pattern: `^trust-[a-z2-7]{10}$`, example: "trust-k3xq7m2pza"},
	"token_id":     {pattern: `^token-[0-9a-z]{12}$`, example: "token-ab12cd34ef56"},
	"full_token":   {pattern: `^` + servicetoken.Pattern + `$`},
	"token_name":   {pattern: label, example: "nightly"},
	"token_status": {values: all(servicetoken.Statuses())},

	"day":       {format: "date", example: "2026-03-14"},
	"days":      {length: [2]int64{0, usage.RetentionDays}, items: "day"},
	"time":      {format: "date-time", example: "2026-12-31T23:59:59Z"},
	"instant":   {example: "2026-03-14"},
	"attention": {values: all(wire.Attentions())},
	"share":     {min: 0, max: 1 << 53, example: 0.92},
	"per":       {values: all(api.Pers()), initial: api.PerWindow},
	"retention": {values: []any{usage.RetentionDays}},
	"count":     {min: 0, max: 1 << 53},
	"page_size": {min: 1, max: api.MaxPageSize, initial: api.DefaultPageSize},
}

// pathKinds contains the kinds of path parameters.
//
//nolint:gochecknoglobals // a constant table
var pathKinds = map[string]string{
	"project": "project", "environment": "environment", "app": "app", "namespace": "namespace", "username": "username", "host": "host",
	"plan_id": "plan_id", "key_id": "key_id", "token_id": "token_id", "change_id": "change", "request_id": "request_id", "group": "docs_group", "revision": "ordinal", "build": "ordinal", "trust_id": "trust_id",
}

func all[T ~string](values []T) []any {
	list := make([]any, len(values))
	for i, v := range values {
		list[i] = string(v)
	}
	return list
}

func distinct(lists ...[]any) []any {
	var values []any
	for _, v := range slices.Concat(lists...) {
		if !slices.Contains(values, v) {
			values = append(values, v)
		}
	}
	return values
}

// limit adds the restrictions of k to a schema. If the schema allows null, the enum includes it.
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
