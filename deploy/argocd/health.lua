-- The health of a CronHPA for Argo CD. It uses the base library alone, so that it needs no `useOpenLibs`.
--
-- Progressing  there is no decision yet, or none since the last edit
-- Suspended    a person scaled the target to zero, and it stays there until a person scales it up
-- Degraded     the Ready condition is False: its reason and message say what to do
-- Healthy      decisions are made; a preview scales nothing and is healthy, too

local function health(status, message)
  return { status = status, message = message }
end

local function condition(kind)
  if obj.status == nil or obj.status.conditions == nil then
    return nil
  end
  for _, item in ipairs(obj.status.conditions) do
    if item.type == kind then
      return item
    end
  end
  return nil
end

local ready = condition("Ready")
if ready == nil then
  return health("Progressing", "no operator has decided upon it yet")
end
if ready.observedGeneration ~= nil and ready.observedGeneration < obj.metadata.generation then
  return health("Progressing", "the last edit has not been decided upon yet")
end
if ready.reason == "ScaledToZeroByHand" then
  return health("Suspended", ready.message)
end
if ready.status == "True" then
  local bounds = condition("BoundsConsistent")
  if bounds ~= nil and bounds.status == "False" then
    return health("Healthy", bounds.message)
  end
  return health("Healthy", ready.message)
end
-- A target and its metrics come a little after the object in a first sync. Another owner and a spec that cannot be read
-- do not go away by waiting.
if obj.status.desiredReplicas == nil and ready.reason ~= "OtherOwner" and ready.reason ~= "SpecUnreadable"
    and ready.reason ~= "Unreadable" then
  return health("Progressing", ready.reason .. ": " .. ready.message)
end
return health("Degraded", ready.reason .. ": " .. ready.message)
