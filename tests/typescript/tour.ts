// This program takes the README's tour with a client generated from the API description. It
// gates an app, issues and revokes a key, deploys the app and rolls it back.
import createClient, { type Middleware } from "openapi-fetch";
import { request } from "node:http";
import { setTimeout as pause } from "node:timers/promises";
import type { components, paths } from "./api.js";

type Problem = components["schemas"]["Error"];

const { BASE_URL: baseUrl, INGRESS: ingress, USERNAME: username, PASSWORD: password, PROJECT: project } = process.env;
if (!baseUrl || !ingress || !username || !password || !project) {
  throw new Error("set BASE_URL, INGRESS, USERNAME, PASSWORD and PROJECT");
}
const environment = "prod";
const path = { project, environment };
const api = createClient<paths>({ baseUrl });

// done returns the data of a response. It throws an error if the API returned a problem.
function done<T>(result: { data?: T; error?: Problem; response: Response }): T {
  if (result.error !== undefined || !result.response.ok) {
    throw new Error(`${result.response.status} ${result.error?.code}: ${result.error?.message}`);
  }
  return result.data as T;
}

// call sends a request to an app through the ingress and returns the status.
function call(app: components["schemas"]["App"], key?: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const headers = { host: app.host, ...(key === undefined ? {} : { "X-API-Key": key }) };
    request(ingress!, { headers }, (response) => response.resume().on("end", () => resolve(response.statusCode ?? 0)))
      .on("error", reject)
      .end();
  });
}

// until waits up to a minute until a condition holds.
async function until(what: string, is: () => Promise<boolean>): Promise<void> {
  for (const end = Date.now() + 60_000; !(await is()); await pause(100)) {
    if (Date.now() > end) {
      throw new Error(`timed out after a minute: ${what}`);
    }
  }
  console.log(what);
}

const session = done(await api.POST("/api/v1/session", { body: { username, password } }));
const asUser: Middleware = {
  onRequest({ request }) {
    request.headers.set("Authorization", `Bearer ${session.token}`);
  },
};
api.use(asUser);

const plan = done(
  await api.POST("/api/v1/projects/{project}/environments/{environment}/plans", {
    params: { path },
    body: { name: "Starter", rate: 100, burst: 100, quota: 1000, quota_period: "month" },
  }),
);
const app = done(
  await api.POST("/api/v1/projects/{project}/environments/{environment}/apps", {
    params: { path },
    body: { name: "hello", image: "registry.example/hello:v1" },
  }),
);
const ofApp = { params: { path: { ...path, app: app.name } } };
await until("the app responds", async () => (await call(app)) === 200);

done(
  await api.PATCH("/api/v1/projects/{project}/environments/{environment}/apps/{app}", {
    ...ofApp,
    body: { require_api_key: true },
  }),
);
await until("the gate is engaged", async () => {
  const { gate } = done(await api.GET("/api/v1/projects/{project}/environments/{environment}/apps/{app}", ofApp));
  return gate.state === "engaged";
});
await until("without a key: 401", async () => (await call(app)) === 401);

const key = done(
  await api.POST("/api/v1/projects/{project}/environments/{environment}/api-keys", {
    params: { path },
    body: { plan: plan.id, name: "Checkout team", apps: [app.name] },
  }),
);
const ofKey = { params: { path: { project, key_id: key.id } } };
await until("with the key: 200", async () => (await call(app, key.key)) === 200);

const today = new Date().toISOString().slice(0, 10);
await until("the usage is reported", async () => {
  const usage = done(
    await api.GET("/api/v1/projects/{project}/api-keys/{key_id}/usage", {
      params: { ...ofKey.params, query: { from: today } },
    }),
  );
  return usage.totals.allowed > 0 && usage.days.length > 0;
});

done(await api.POST("/api/v1/projects/{project}/api-keys/{key_id}/revoke", ofKey));
await until("with the revoked key: 401", async () => (await call(app, key.key)) === 401);

const rejected = await api.PATCH("/api/v1/projects/{project}/api-keys/{key_id}", { ...ofKey, body: { status: "active" } });
if (rejected.error?.code !== "key_revoked") {
  throw new Error(`enable a revoked key: got ${rejected.response.status}, want key_revoked`);
}

const deployment = done(
  await api.POST("/api/v1/projects/{project}/environments/{environment}/apps/{app}/deployments", {
    ...ofApp,
    body: { image: "registry.example/hello:v2" },
  }),
);
await until("the deployment is live", async () => {
  const history = done(
    await api.GET("/api/v1/projects/{project}/environments/{environment}/apps/{app}/deployments", ofApp),
  );
  return history.items.some((d) => d.revision === deployment.revision && d.current && d.status === "live");
});
const back = done(
  await api.POST("/api/v1/projects/{project}/environments/{environment}/apps/{app}/rollback", ofApp),
);
if (back.image !== "registry.example/hello:v1" || back.trigger !== "rollback") {
  throw new Error(`rollback: got ${back.image} by ${back.trigger}, want registry.example/hello:v1 by rollback`);
}
done(await api.DELETE("/api/v1/session"));
console.log("tour completed");
